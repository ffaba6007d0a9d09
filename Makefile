# Everything one does with a checkout, one command each; every command makes or reuses .venv.

VENV := .venv
BIN := $(VENV)/bin
# The commands to try for making .venv, in order: constraints.txt was made with Python 3.11.
PYTHON ?= python3.11 python3
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
HASHED_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
	--require-hashes -r hashes.txt
# More arguments for pytest or for the benchmarks: make test ARGS="-k splits -x"
ARGS ?=
# How many test processes; auto is one per core.
WORKERS ?= auto

# Dataset files that lie beside the checkout are used unless GRAPHDROP_DATA says otherwise.
ifeq ($(origin GRAPHDROP_DATA),undefined)
  beside := $(shell cd ../shared/data 2>/dev/null && pwd)
  ifneq ($(beside),)
    export GRAPHDROP_DATA := $(beside)
  endif
endif

.PHONY: help demo reproduce browser pictures test test-slow torture verify-hashes lint format bench bench-scale docs release constraints clean
.DEFAULT_GOAL := help

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.dev  ## train two networks on a citation graph, compare them, write a report
	@$(BIN)/graphdrop demo $(ARGS)

# For example: make reproduce TARGET=table1 ARGS="--runs 10"; make reproduce ARGS=--help lists the targets.
TARGET ?= table1
reproduce: $(VENV)/.dev  ## make a table or figure of the paper: TARGET=table1 ARGS="--runs 10"
	@$(BIN)/python -m experiments $(TARGET) $(ARGS)

test: $(VENV)/.dev  ## run the tests
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

browser:  ## install Chromium, which the report's tests are skipped without, or say how
	@if command -v chromium chromium-browser google-chrome; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  install="apt-get install --yes --quiet --no-install-recommends chromium"; \
	  $$install || { apt-get update --quiet && $$install; }; \
	else echo "Chromium is not here: install it, on Debian with sudo apt-get install chromium." >&2; exit 1; fi

# Status 5 is pytest's "nothing was selected": no failure while there are no slow tests.
test-slow: $(VENV)/.dev  ## run the tests that take minutes each
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) -m slow $(ARGS) || test $$? -eq 5

# coverage.py comes for this alone; every part can be run by itself: make torture ARGS="fuzz kills"
torture: $(VENV)/.torture  ## hours: fuzz, kill, wear out and mutate; counts go to results/torture
	@PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m torture.run $(ARGS)

# What is installed with HASHED=1 must be one of the files whose sha256 is in hashes.txt.
verify-hashes: $(VENV)/.dev  ## ask the index for every pinned package, and check its sha256
	@$(HASHED_INSTALL) --dry-run --ignore-installed && echo "Every package has a sha256 of hashes.txt."

lint: $(VENV)/.dev  ## check style, types and the order of the packages
	@failed=; \
	$(BIN)/ruff check . || failed="$$failed style"; \
	$(BIN)/ruff format --check . || failed="$$failed format"; \
	$(BIN)/mypy || failed="$$failed types"; \
	$(BIN)/lint-imports --no-logo || failed="$$failed imports"; \
	if [ -n "$$failed" ]; then echo "lint failed in:$$failed" >&2; exit 1; fi

format: $(VENV)/.dev  ## rewrite the code in the house style
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

bench: $(VENV)/.dev  ## measure every benchmark against its peer, full size
	@if [ -f benchmarks/run.py ]; then $(BIN)/python benchmarks/run.py $(ARGS); \
	else echo "There are no benchmarks yet: benchmarks/run.py does not exist."; fi

bench-scale: $(VENV)/.dev  ## measure large graphs: minutes each, 31 GB of disk for a while
	@$(BIN)/python benchmarks/bench_scale.py $(ARGS); first=$$?; \
	$(BIN)/python benchmarks/bench_scale_memory.py $(ARGS) && exit $$first

docs: $(VENV)/.docs  ## build the documentation into site/, warnings are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Built site/index.html"

pictures: $(VENV)/.dev  ## take the screenshots of the documentation anew, in Chromium
	@GRAPHDROP_PICTURES=docs/pictures $(BIN)/python -m pytest -q -n 0 -m slow tests/report/test_pictures.py

# More Pythons to try the wheel with: make release ARGS="--python python3.12 --python python3.13"
release: $(VENV)/.release  ## build wheel and sdist, try them in a clean environment, write their papers
	@$(BIN)/python release/build.py $(ARGS)

# torch is moved by hand: its newest wheel on PyPI for Linux brings gigabytes of CUDA along.
constraints:  ## remake constraints.txt with the newest versions the ranges allow (torch stays)
	@$(find_python); folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	"$$python" -m venv "$$folder/venv" && \
	"$$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
	  "$$(grep '^torch==' constraints.txt)" '.[dev,docs,release]' && \
	"$$folder/venv/bin/python" -m pip freeze --all --exclude graphdrop --exclude pip > "$$folder/freeze" && \
	{ sed -n '/^#/p' constraints.txt; sed 's/+cpu$$//' "$$folder/freeze"; } > "$$folder/new" && \
	cp "$$folder/new" constraints.txt && \
	"$$folder/venv/bin/python" release/hashes.py > "$$folder/hashes" && cp "$$folder/hashes" hashes.txt

clean:  ## remove caches and everything built, but not .venv
	@rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# Sets $$python to the first usable Python, or says what is missing.
find_python = python=; \
	for candidate in $(PYTHON); do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	  then python=$$candidate; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "error: graphdrop needs Python 3.11 or later, and none of these is one: $(PYTHON)." >&2; \
	  echo "Install one, or name one: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; \
	fi

# Some systems split ensurepip off from their Python; pip itself can stand in for it.
make_venv = \
	if "$$python" -c 'import ensurepip' 2>/dev/null; then "$$python" -m venv $(VENV); \
	else "$$python" -m venv --without-pip $(VENV) && \
	  "$$python" -m pip --python $(BIN)/python install --quiet pip; fi

# HASHED=1 stops where a package cannot be had with a sha256 of hashes.txt. HASHED=try stops at a
# file with another sha256, and goes on by constraints.txt alone if the index lacks one or is away.
install_hashed = log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	if $(HASHED_INSTALL) 2>"$$log"; then echo "Every package but torch has a sha256 of hashes.txt."; \
	elif [ "$(HASHED)" != try ] || grep -q 'DO NOT MATCH THE HASHES' "$$log"; \
	then cat "$$log" >&2; exit 1; \
	else tail -n 3 "$$log" >&2; \
	  echo "Hashes were not checked: the index did not give every package (above)." >&2; fi

# A stamp is touched last, so that an installation cut short is done again.
$(VENV)/.dev: pyproject.toml constraints.txt
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { $(find_python); rm -rf $(VENV); $(make_venv); }
	@echo "Installing graphdrop and its tools into $(VENV): the first time takes a minute or more."
	@if [ -n "$(HASHED)" ]; then $(install_hashed); fi
	@$(PIP_INSTALL) -e '.[dev]'
	@touch $@

$(VENV)/.torture: $(VENV)/.dev
	@$(PIP_INSTALL) -e '.[torture]'
	@touch $@

$(VENV)/.docs: $(VENV)/.dev
	@echo "Installing the documentation tools into $(VENV)."
	@$(PIP_INSTALL) -e '.[docs]'
	@touch $@

$(VENV)/.release: $(VENV)/.dev
	@echo "Installing the tools of a release into $(VENV)."
	@$(PIP_INSTALL) -e '.[release]'
	@touch $@
