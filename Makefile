# Everything runs from a fresh checkout with python3 (3.11 or newer) and make.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
TEST_PEERS ?= 1
ARGS ?=

BIN := $(VENV)/bin
RUN := $(BIN)/python
PIP := $(RUN) -m pip install --quiet

# A stamp is as new as the last installation; a change of pyproject.toml installs again.
BASE := $(VENV)/.stamp-base
PEERS := $(VENV)/.stamp-peers
DEV := $(VENV)/.stamp-dev
TESTED := $(if $(filter 1,$(TEST_PEERS)),$(PEERS),$(BASE))

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help venv demo test bench lint format clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  TEST_PEERS=$(TEST_PEERS)  1: torch and jax are installed as oracles; 0: without them"
	@echo "  JOBS=$(JOBS)        test processes"
	@echo "  ARGS=$(ARGS)         passed on: make test ARGS='tests/nn -k conv'"
	@echo "  FX_CACHE_DIR  a folder that keeps compiled code for the next run of the tests; else .fx-cache"

venv: $(BASE) ## create .venv with fx (editable) and what the tests and examples need

demo: $(BASE) ## train a digit classifier, from scikit-learn's data to a picture
	$(RUN) -m fx.examples.digits $(ARGS)

test: $(TESTED) ## run the test suite; TEST_PEERS=0 does without torch and jax
	$(RUN) -m pytest -n $(JOBS) --dist worksteal $(ARGS)

bench: $(TESTED) ## run the benchmarks; TEST_PEERS=0 does without torch and jax
	$(RUN) -m benchmarks $(ARGS)

lint: $(DEV) ## ruff (rules and format) and mypy, changing nothing
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(DEV) ## let ruff sort imports, repair what it can and format
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

clean: ## remove .venv, caches and built files
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache .fx-cache
	find . -name .git -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
	find . -name .git -prune -o -type f \( -name '*.nbi' -o -name '*.nbc' \) -exec rm -f {} +

$(RUN):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fx needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ": make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(BASE): pyproject.toml | $(RUN)
	$(PIP) --editable '.[test,examples]'
	@touch $@

$(PEERS): pyproject.toml | $(RUN)
	$(PIP) --editable '.[test,examples,peers]'
	@touch $@ $(BASE)

$(DEV): pyproject.toml | $(RUN)
	$(PIP) --editable '.[dev]'
	@touch $@
