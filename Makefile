# Every task of the project; make help lists them. No logic: a target is one or two commands.
PYTHON ?= python3
PY = .venv/bin/python
COMPOSE ?= docker compose
ON_THREE_BROKERS = STACK_KAFKA_SERVERS=kafka-1:9092,kafka-2:9092,kafka-3:9092 \
	STACK_REPLICATION=3 DATA_SUFFIX=three-brokers
# Locks every platform's packages with their hashes, and writes no addresses.
UV_LOCK = $(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate $(UPGRADE)
FILES_AT_A_TIME = --dist=loadfile --no-loadscope-reorder --numprocesses
export RUFF_CACHE_DIR = .rackstream/ruff
# Development containers often set it. Then each program compiles all its imports: 2 s for Spark.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.PHONY: help setup packages demo test test-rest test-all lessons lint docs screenshots format lock \
	broker broker-down status load bench up up-cluster up-brokers verdict monitoring failover \
	test-stack test-forms promises down logs clean clean-runs

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Create .venv and fetch the jars; local targets run this first
	@$(PYTHON) setup_env.py

packages: ## Create .venv and fetch the jars, but make no archives of classes
	@$(PYTHON) setup_env.py --without-cds

demo: packages ## Run everything without Docker; DURATION=60 stops after 60 s, PORT= sets the port
	@$(PY) -m demo run
	@$(PY) -m broker.cds_archive
	@$(PY) -m spark_jobs.runtime.cds_archive

test: setup ## Run the quick tier of the tests (5 minutes on two processors)
	$(PY) -m pytest -m "not full and not alone" $(FILES_AT_A_TIME)=3
	$(PY) -m pytest -m "not full and alone"

test-rest: setup ## Run the tests that the quick tier leaves out
	$(PY) -m pytest -m "full and not alone" $(FILES_AT_A_TIME)=4
	$(PY) -m pytest -m "full and alone"

test-all: export HYPOTHESIS_PROFILE = full
test-all: test test-rest ## Run every test that this machine can run, each once

promises: setup ## Run the tests that measure promised times; fails where one is missed
	$(PY) -m pytest --promises

lessons: setup ## Run all lessons of Structured Streaming, and compare what they print
	$(PY) -m lessons run --all

lint: packages ## Check style, docstrings and types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m kubernetes_validate --strict --quiet deploy/kubernetes/*.yaml

docs: setup ## Regenerate the pages that come from the programs: commands and lessons
	$(PY) -m docs.commands
	$(PY) -m lessons pages

screenshots: setup ## Make the pictures of the dashboard in docs/images from the real demo
	$(PY) -m tests.browser.screenshots

format: setup ## Rewrite the code in the project's format
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

lock: setup ## Regenerate every lock file; UPGRADE=--upgrade moves indirect ones
	$(UV_LOCK) pyproject.toml --output-file requirements.lock
	$(UV_LOCK) pyproject.toml --group dev --output-file requirements-dev.lock
	$(UV_LOCK) loadtest/engines/python/requirements-bytewax.in \
		--output-file loadtest/engines/python/requirements-bytewax.lock
	$(UV_LOCK) loadtest/engines/python/requirements-quix.in \
		--output-file loadtest/engines/python/requirements-quix.lock
	$(PY) -m jars lock

broker: setup ## Start a Kafka broker on this machine and leave it running
	$(PY) -m broker up

broker-down: setup ## Stop that broker and keep its data
	$(PY) -m broker down

status: setup ## Say whether the broker answers
	$(PY) -m broker status

load: setup ## Measure latency at two rates in both modes, and write a report (4 minutes)
	$(PY) -m loadtest run quick

bench: setup ## Measure latency and throughput against their limits (50 minutes)
	$(PY) -m loadtest run producer alert-latency overheating-catch-up ad-attribution-latency \
		action-counts-catch-up silence-latency

up: ## Start the pipeline in containers and show its first alerts (needs only Docker)
	@FORM=$@ COMPOSE="$(COMPOSE)" sh deploy/up.sh
	@echo "Kafka: $$($(COMPOSE) port kafka 9094)."

up-cluster: ## Start it with the jobs on a Spark cluster in containers
	@FORM=$@ COMPOSE="$(COMPOSE) --profile cluster" sh deploy/up.sh \
		--scale real-time=0 --scale micro-batch=0 --scale closed-windows=0
	@echo "Spark: http://$$($(COMPOSE) --profile cluster port spark-master 8080)."

up-brokers: ## Start it on three brokers with three replicas of each record
	@FORM=$@ $(ON_THREE_BROKERS) COMPOSE="$(COMPOSE) --profile brokers" sh deploy/up.sh \
		--scale kafka=0

verdict: ## Stop the producers of the containers, and compare all outputs with what they sent
	@COMPOSE="$(COMPOSE)" THREE_BROKERS="$(ON_THREE_BROKERS)" sh deploy/verdict.sh

monitoring: ## Add Prometheus, Alertmanager and Grafana, which watch it; start it if need be
	@COMPOSE="$(COMPOSE)" sh deploy/monitoring.sh
	@echo "Grafana: http://$$($(COMPOSE) --profile monitoring port grafana 3000)." \
		"Prometheus: http://$$($(COMPOSE) --profile monitoring port prometheus 9090)."

failover: setup ## Kill the Spark master, a worker and a broker under load; count lost alerts
	REQUIRE_DOCKER=1 FAILOVER_SECONDS=60 $(PY) -m pytest -s \
		tests/containers/test_failover.py tests/containers/failover_of_all_jobs.py

test-stack: setup ## Test the containers: verdicts after the start, after kills, after a restart
	REQUIRE_DOCKER=1 EACH_VERDICT=1 $(PY) -m pytest -s tests/containers/test_stack.py

test-forms: setup ## Test the containers: make up, verdict, down, up-cluster and up-brokers in turn
	REQUIRE_DOCKER=1 $(PY) -m pytest -s tests/containers/forms.py

logs: ## Follow the alerts of the containers
	$(COMPOSE) logs --follow --no-log-prefix alerting

down: ## Stop the containers; their data stays
	$(COMPOSE) --profile '*' down

clean: ## Remove the containers and their data
	$(COMPOSE) --profile '*' down --volumes --remove-orphans

clean-runs: ## Delete everything in .rackstream except the jars, including load reports
	@test ! -x $(PY) || $(PY) -m broker down
	test ! -d .rackstream || find .rackstream -mindepth 1 -maxdepth 1 ! -name jars -exec rm -rf {} +
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
