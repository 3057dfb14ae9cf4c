# Two commands are all the set-up there is: `make demo` and `make test`.
# Both install what they need first (tools/install.sh).

PYTHON ?= python3
BIN := .venv/bin
# Broker tests mostly wait, so five processes share the tests, and four those of make test, which wait less:
# what needs the same brokers or Spark stays together (tests/sharing.py), in its order, since the brokers of a
# package end with its last test.
SIDE_BY_SIDE := --dist loadfile --no-loadscope-reorder --numprocesses 5
FEWER := $(SIDE_BY_SIDE:5=4)
# The levels of tests, by the markers of pyproject.toml: each test is in one of the first two or in neither,
# and make test-all runs all (tests/unit/test_levels.py).
FIRST := not slow and not thorough and not further
FURTHER := further and not slow and not thorough
PYTEST := env -u MAKEFLAGS -u MFLAGS $(BIN)/python -m pytest
INSTALL := VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --no-deps --require-hashes
COMPILE := $(BIN)/uv pip compile --quiet --generate-hashes --strip-extras --no-header --no-emit-index-url
SOAK_MINUTES ?= 60
export PYTHON
# Images like to set it; without compiled modules each process of thousands compiles what it imports anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test tests test-further test-all bare-debian lint bench bench-large soak notebooks pictures requirements wheel image docs sbom audit tools-installed \
	install clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

demo: ## Start a real three-broker Kafka, a workload and the dashboard; Ctrl-C ends all of it
	@tools/install.sh java pango
	@$(BIN)/lowwater demo up || [ $$? -eq 130 ]

test: ## Each rule once by its cheapest honest test, and lint beside the tests (minutes on two cores)
	@tools/install.sh java pango chromium
	@$(MAKE) --no-print-directory --jobs=2 tests lint

# Side by side with lint, which is over when the first of them are; what make tells its own is not for theirs.
# Collected once before: processes that find no compiled tests would each rewrite the asserts of all of them.
tests:
	@$(PYTEST) -m "$(FIRST)" --collect-only -qq >/dev/null || true
	@$(PYTEST) -m "$(FIRST)" $(FEWER)

test-further: ## What make test leaves out to take minutes: variants, whole passes; CI runs both
	@tools/install.sh java pango chromium
	@$(PYTEST) -m "$(FURTHER)" $(SIDE_BY_SIDE)

test-all: ## Everything: the slow extras, the broker tests on Kafka 3.9.2 and 4.4.0 too, and a bare Debian
	@tools/install.sh java pango chromium
	@$(MAKE) --no-print-directory lint
	@$(INSTALL) -r requirements-bench.txt
	@$(BIN)/python -m pytest -m "not slow" --hypothesis-profile=roaming $(SIDE_BY_SIDE)
	@$(BIN)/python -m pytest -m slow --hypothesis-profile=roaming $(SIDE_BY_SIDE)
	@LOWWATER_KAFKA_VERSION=3.9.2 $(BIN)/python -m pytest tests/brokers -m "not slow" $(SIDE_BY_SIDE)
	@LOWWATER_KAFKA_VERSION=4.4.0 $(BIN)/python -m pytest tests/brokers -m "not slow" $(SIDE_BY_SIDE)
	@$(MAKE) --no-print-directory bare-debian

bare-debian: ## make demo and make test on a fresh Debian 12 that has Python 3.11.2, git and make alone (root)
	@tools/bare_debian.sh

lint: ## ruff, mypy --strict and the arrows between rooms
	@tools/install.sh
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: ## Measure speed against peers in one run and print tables (docs/benchmarks.md)
	@tools/install.sh java
	@$(INSTALL) -r requirements-bench.txt
	@$(BIN)/python -m tests.bench

bench-large: ## Collect and analyze a million partitions, and a long history (some minutes, 8 GB)
	@tools/install.sh java
	@$(INSTALL) -r requirements-bench.txt
	@$(BIN)/python -m tests.bench.bench_collect_scale --large
	@$(BIN)/python -m tests.bench.bench_engine --large
	@$(BIN)/python -m tests.bench.bench_memory history
	@$(BIN)/python -m tests.bench.bench_memory inventory
	@$(BIN)/python -m tests.bench.bench_memory kept

soak: ## The demo under faults and purges for SOAK_MINUTES, from SOAK_SEED if given (docs/soak.md)
	@tools/install.sh java chromium
	@$(BIN)/python -m tests.soak --minutes $(SOAK_MINUTES) --every 20 $(if $(SOAK_SEED),--seed $(SOAK_SEED))

notebooks: ## Run the notebooks on LOWWATER_DATA, PLAN and ARCHIVE, and store what they show
	@tools/install.sh java chromium
	@$(BIN)/python tools/notebooks.py

pictures: ## Make the documentation's pictures of the pages anew, on a newcomer's way through the demo
	@tools/install.sh java chromium
	@$(BIN)/python -m pytest -n0 tests/e2e/test_tour_in_browser.py
	@for name in overview receipt report; do cp artifacts/tour-$$name.png docs/images/$$name.png; done

requirements: ## Pin what pyproject.toml asks for, with hashes, and list the licences
	@tools/install.sh
	@$(COMPILE) --extra dev -o requirements.txt pyproject.toml
	@$(COMPILE) -c requirements.txt -o requirements-bench.txt requirements-bench.in
	@$(COMPILE) -c requirements.txt -o requirements-tools.txt requirements-tools.in
	@tools/install.sh
	@$(BIN)/python tools/licences.py

wheel: ## Build the wheel of this commit into dist/, byte for byte the same anywhere
	@tools/install.sh
	@$(BIN)/python tools/wheel.py

image: ## Build the container image of this commit, by buildah, podman or docker (docs/deploy.md)
	@tools/install.sh
	@$(BIN)/python -m tools.image

docs: tools-installed ## Build the documentation as a site into dist/site; a link that leads nowhere fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

sbom: tools-installed ## List what Lowwater needs to run as CycloneDX into dist/lowwater.cdx.json
	@mkdir -p dist
	@$(BIN)/python -m tools.sbom dist/lowwater.cdx.json

audit: tools-installed ## Ask the advisory database about every pinned package (needs the internet)
	@$(BIN)/pip-audit --requirement requirements.txt --require-hashes --disable-pip

tools-installed:
	@tools/install.sh
	@$(INSTALL) -r requirements-tools.txt

install: ## Only install
	@tools/install.sh java pango chromium

clean: ## Remove what make created in this folder
	rm -rf .venv build dist artifacts *.egg-info .mypy_cache .ruff_cache .import_linter_cache
