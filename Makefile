# Two commands are all the set-up there is: `make demo` and `make test`.
# Both install what they need first (tools/install.sh).

PYTHON ?= python3
BIN := .venv/bin
# Broker tests mostly wait, so two processes share the tests, one by one; each has its own brokers.
SIDE_BY_SIDE := --numprocesses 2 --dist load --maxschedchunk 1
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint bench bench-large requirements install clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

demo: ## Start a real three-broker Kafka, a workload and the dashboard; Ctrl-C ends all of it
	@tools/install.sh java pango
	@$(BIN)/lowwater demo up || [ $$? -eq 130 ]

test: ## Lint, then every test that belongs to a normal run (under 12 minutes on two cores)
	@tools/install.sh java pango chromium
	@$(MAKE) --no-print-directory lint
	@$(BIN)/python -m pytest -m "not slow" $(SIDE_BY_SIDE)

test-all: ## Everything: the slow extras, and the broker tests on Kafka 3.9.2 and 4.4.0 too
	@tools/install.sh java pango chromium
	@$(MAKE) --no-print-directory lint
	@$(BIN)/python -m pytest
	@LOWWATER_KAFKA_VERSION=3.9.2 $(BIN)/python -m pytest tests/brokers -m "not slow"
	@LOWWATER_KAFKA_VERSION=4.4.0 $(BIN)/python -m pytest tests/brokers -m "not slow"

lint: ## ruff, mypy --strict and the arrows between rooms
	@tools/install.sh
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: ## Measure speed against peers in one run and print tables (docs/benchmarks.md)
	@tools/install.sh java
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-bench.txt
	@$(BIN)/python -m tests.bench

bench-large: ## Collect and analyze a million partitions, and a long history (some minutes, 8 GB)
	@tools/install.sh java
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-bench.txt
	@$(BIN)/python -m tests.bench.bench_collect_scale --large
	@$(BIN)/python -m tests.bench.bench_engine --snapshots 48 --large

requirements: ## Compile requirements.txt from pyproject.toml
	@tools/install.sh
	@$(BIN)/pip-compile --quiet --extra dev --strip-extras --allow-unsafe --no-emit-find-links --no-emit-index-url --no-header -o requirements.txt pyproject.toml

install: ## Only install
	@tools/install.sh java pango chromium

clean: ## Remove what make created in this folder
	rm -rf .venv build dist artifacts *.egg-info .mypy_cache .ruff_cache .import_linter_cache
