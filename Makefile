# The index of what can be done here. No logic: each target is one command.
PYTHON ?= python3
PY = .venv/bin/python
export RUFF_CACHE_DIR = .rackstream/ruff
.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format lock broker broker-down up down clean bench

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Make .venv and fetch the jars (every target calls it; instant when nothing changed)
	@$(PYTHON) setup_env.py

lint: setup ## Check style, docstrings and types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: setup ## Rewrite the code in the project's format
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

test: setup ## Run every test that this machine can run, on a broker of its own
	$(PY) -m pytest
