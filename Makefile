# `make demo` shows the thing, `make test` checks it. Both do their own set-up in .venv.

# pip and napari write below HOME; a service account may have none, or one it may not write to.
ifeq ($(shell test -n "$$HOME" && test -w "$$HOME" && echo yes),)
export HOME := $(CURDIR)/.venv/home
endif

# Tests see neither the settings nor the caches of whoever runs them.
PYTEST = env XDG_CONFIG_HOME="$(CURDIR)/.venv/test/config" \
    XDG_CACHE_HOME="$(CURDIR)/.venv/test/cache" .venv/bin/python -m pytest

# Two processes, each with whole files of tests: what a file shares is made once. Tests with a window
# stay in one, as do those of a machine with little memory: make test IN_TWO=
IN_TWO = --numprocesses 2 --dist loadfile

# Tests run models: they need what the extra `local` brings. torchvision's wheel names the one torch
# that it fits, so pip takes a matching pair. The CPU build (about 1 GB installed instead of 5.5) does as well:
#     PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu make test
EXTRAS = gui,dev
test: EXTRAS = gui,dev,dev-models,local,film,scale

.PHONY: help demo test quick mutations lint format setup clean

help:
	@echo 'make demo    open the demo case (leaves demo.png when there is no display)'
	@echo 'make test    everything that has to pass: lint, types, all tests'
	@echo 'make quick   the tests that need no window and no patience'
	@echo 'make lint    ruff and mypy alone'
	@echo 'make mutations  faults put into the rule table and the measuring code: each is caught'
	@echo 'make format  let ruff format and sort'
	@echo 'make clean   remove .venv, caches and builds'

demo:
	@sh scripts/demo.sh

setup:
	@sh scripts/setup.sh $(EXTRAS)

test: setup lint
	rm -rf .venv/test
	$(PYTEST) $(IN_TWO) tests --ignore tests/gui
	sh scripts/on_virtual_display.sh $(PYTEST) tests/gui

quick: setup
	$(PYTEST) $(IN_TWO) tests --ignore tests/gui -m 'not slow'

mutations: setup
	.venv/bin/python scripts/mutations.py --quiet

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

format: setup
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

clean:
	rm -rf .venv build dist demo.png .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
