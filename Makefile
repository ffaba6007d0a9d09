# What one does with a checkout. Every command makes .venv first, if it is not there.
BIN := .venv/bin
ARGS ?=
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

# Dataset files beside the checkout are used, unless GRAPHDROP_DATA names others.
ifneq ($(wildcard ../shared/data),)
  export GRAPHDROP_DATA ?= $(abspath ../shared/data)
endif

.DEFAULT_GOAL := help
.PHONY: help demo reproduce test test-all torture lint format bench docs release lock clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

.venv/installed: pyproject.toml requirements.lock
	@PYTHON="$(PYTHON)" release/environment.sh

demo: .venv/installed  ## train two networks on a citation graph, compare them, write a report
	@$(BIN)/graphdrop demo $(ARGS)

reproduce: .venv/installed  ## make a table or figure of the paper: TARGET=table1 ARGS="--runs 10"
	@$(BIN)/python -m experiments $(or $(TARGET),table1) $(ARGS)

test: .venv/installed  ## run the tests: ARGS="-k splits -x"
	@$(PYTEST) $(ARGS)

test-all: .venv/installed  ## run every test; those that take long need Chromium: release/browser.sh
	@$(PYTEST) -m "slow or not slow" $(ARGS)

torture: .venv/installed  ## fuzz, kill, wear out and mutate, for hours: ARGS="fuzz kills"
	@PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m torture.run $(ARGS)

lint: .venv/installed  ## check style, types and the order of the packages
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports --no-logo

format: .venv/installed  ## rewrite the code in the house style
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

bench: .venv/installed  ## measure every benchmark against its peer; large graphs: see CONTRIBUTING.md
	@$(BIN)/python benchmarks/run.py $(ARGS)

docs: .venv/installed  ## build the documentation into site/; a warning is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet && echo "Built site/index.html"

release: .venv/installed  ## build wheel and sdist, try them in a clean environment, write their papers
	@$(BIN)/python release/build.py $(ARGS)

lock:  ## write requirements.lock with the newest versions that pyproject.toml allows
	@release/lock.sh

clean:  ## remove caches and what was built, but not .venv
	@rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -path ./.venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
