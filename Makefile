# Every target does its own set-up: a virtual environment, the package, WordNet. No root, no step by hand.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test check bench wordnet browser pocket clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "GroC needs Python 3.11 or newer; set PYTHON=python3.x")'
	@echo "Setting up $(VENV): this takes a minute or more, most of it for PyTorch."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

wordnet: $(READY) ## find WordNet on this machine or put it into the user's cache
	$(BIN)/groc lexicon install

demo: wordnet ## train a small GroC and a small tied model, move both to a new domain (minutes on a CPU)
	$(BIN)/groc demo

browser: # Debian's Chromium for the browser tests, where it may be installed
	@command -v chromium > /dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null \
	     && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium > /dev/null; } \
	|| echo "The browser tests are skipped: there is no chromium, and only root on Debian can install it here."

# Each test computes in one thread, so two processes take half the time. Each has one half of the files, and helps the
# other when it is done: what the tests of a file share is mostly made once.
test: wordnet browser ## run the tests
	$(BIN)/python -m pytest -rsfE -n 2 --dist worksteal

check: $(READY) ## lint and type-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY) ## time one training step of each model, as a ratio to the tied one
	$(BIN)/groc bench

pocket: wordnet ## train the small model that comes along anew (half an hour on a CPU)
	$(BIN)/python tools/pocket.py

clean: ## remove the virtual environment and caches of this folder
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build demo
