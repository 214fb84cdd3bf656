# The index of what can be done here. No logic: each target is one command.
PYTHON ?= python3
PY = .venv/bin/python
COMPOSE ?= docker compose
export RUFF_CACHE_DIR = .rackstream/ruff
.DEFAULT_GOAL := help
.PHONY: help setup demo test lessons lint format broker broker-down status bench up down logs clean clean-runs

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Make .venv and fetch the jars (every target calls it; instant when nothing changed)
	@$(PYTHON) setup_env.py

demo: setup ## Everything on this machine without Docker; DURATION=60 ends by itself, PORT= chooses the port
	@$(PY) -m demo

test: setup ## Run every test that this machine can run, on a broker of its own
	$(PY) -m pytest

lessons: setup ## Run all lessons of Structured Streaming, and compare what they print
	$(PY) -m spark_jobs.lessons run --all

lint: setup ## Check style, docstrings and types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: setup ## Rewrite the code in the project's format
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

broker: setup ## Start a Kafka broker on this machine and leave it running
	$(PY) -m broker up

broker-down: setup ## Stop that broker and keep its data
	$(PY) -m broker down

status: setup ## Say whether the broker answers
	$(PY) -m broker status

bench: setup ## Measure speed against the promised bounds, in one run with the reference
	$(PY) -m loadtest speed

up: ## The same as the demo in containers; waits until it is healthy (needs Docker Compose)
	$(COMPOSE) up --build --detach --wait
	@echo "It runs. Alerts as they come: make logs. Kafka for programs on this machine: localhost:$${KAFKA_HOST_PORT:-9092}."

logs: ## Show the alerts of the containers as they come
	$(COMPOSE) logs --follow --no-log-prefix alerting

down: ## Stop the containers and keep their data
	$(COMPOSE) down

clean: ## Remove the containers with all their data
	$(COMPOSE) down --volumes --remove-orphans

clean-runs: broker-down ## Remove what runs on this machine left; .venv and the jars stay
	rm -rf .rackstream/[!j]* .pytest_cache .mypy_cache .ruff_cache .hypothesis
