# The index of what can be done here. No logic: each target is one command.
PYTHON ?= python3
PY = .venv/bin/python
COMPOSE ?= docker compose
FIRST_ALERTS = COMPOSE="$(COMPOSE)" sh deploy/first_alerts.sh
ON_THREE_BROKERS = STACK_KAFKA_SERVERS=kafka-1:9092,kafka-2:9092,kafka-3:9092 STACK_REPLICATION=3 STACK_DATA=of-three-brokers
export RUFF_CACHE_DIR = .rackstream/ruff
.DEFAULT_GOAL := help
.PHONY: help setup demo test lessons lint format broker broker-down status load bench up up-cluster up-brokers failover down logs clean clean-runs

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Make .venv and fetch the jars (every target calls it; instant when nothing changed)
	@$(PYTHON) setup_env.py

demo: setup ## Everything on this machine without Docker; DURATION=60 ends by itself, PORT= chooses the port
	@$(PY) -m demo

test: setup ## Run every test that this machine can run, two files at a time; those of the containers last, alone
	$(PY) -m pytest --ignore=tests/containers --numprocesses=2 --dist=loadfile --no-loadscope-reorder
	$(PY) -m pytest tests/containers

lessons: setup ## Run all lessons of Structured Streaming, and compare what they print
	$(PY) -m spark_jobs.lessons run --all

lint: setup ## Check style, docstrings and types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m kubernetes_validate --strict --quiet deploy/kubernetes/*.yaml

format: setup ## Rewrite the code in the project's format
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

broker: setup ## Start a Kafka broker on this machine and leave it running
	$(PY) -m broker up

broker-down: setup ## Stop that broker and keep its data
	$(PY) -m broker down

status: setup ## Say whether the broker answers
	$(PY) -m broker status

load: setup ## Measure latency at two rates in two modes, and write a report: some four minutes
	$(PY) -m loadtest run quick

bench: setup ## Measure speed against the promised bounds, the producer in one run with Kafka's own
	$(PY) -m loadtest run producer
	$(PY) -m loadtest speed

up: ## The same as the demo in containers; waits for the first alerts (needs Docker and its Compose, nothing else)
	$(COMPOSE) up --build --detach --wait
	@$(FIRST_ALERTS)
	@echo "It runs. More alerts: make logs. Kafka for programs on this machine: localhost:$${KAFKA_HOST_PORT:-9092}. End: make down."

up-cluster: ## The same with the jobs on a Spark cluster of containers: a master, two workers
	$(COMPOSE) --profile cluster up --build --detach --wait --scale realtime=0 --scale micro-batch=0
	@$(FIRST_ALERTS)
	@echo "It runs. Spark's master: http://localhost:$${SPARK_HOST_PORT:-8080}. More alerts: make logs. End: make down."

up-brokers: ## The same on three brokers that keep each record three times
	$(ON_THREE_BROKERS) $(COMPOSE) --profile brokers up --build --detach --wait --scale kafka=0
	@$(FIRST_ALERTS)
	@echo "It runs. More alerts: make logs. End: make down."

failover: setup ## Kill a Spark worker and a broker under a minute of load, and count what is lost
	REQUIRE_DOCKER=1 FAILOVER_SECONDS=60 $(PY) -m pytest tests/containers/test_failover.py -s

logs: ## Show the alerts of the containers as they come
	$(COMPOSE) logs --follow --no-log-prefix alerting

down: ## Stop the containers and keep their data
	$(COMPOSE) --profile '*' down

clean: ## Remove the containers with all their data
	$(COMPOSE) --profile '*' down --volumes --remove-orphans

clean-runs: broker-down ## Remove what runs on this machine left; .venv and the jars stay
	rm -rf .rackstream/[!j]* .pytest_cache .mypy_cache .ruff_cache .hypothesis
