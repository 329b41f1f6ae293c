# Two commands do everything on a fresh machine: `make crawl` and `make test`.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
MANAGE := $(BIN)/python manage.py
WHAT := $(if $(SPIDER)$(URL),$(or $(SPIDER),site),listings --demo --workers 2)
# A backport cannot be installed on the Python that has the real thing.
FREEZE := build/lock/bin/python -m pip freeze -q | sed '/^backports/s/$$/ ; python_version < "3.14"/'

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help crawl up test soak worlds faults mutants bench check format messages lock wheel clean

help: ## show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1	/' | expand -t 20

crawl: .venv/runtime ## crawl the demo site; SPIDER=name ARGS="k=v k2=v2" URL=... crawls something else
	$(MANAGE) crawl $(strip $(WHAT) $(foreach pair,$(ARGS),-a '$(pair)') $(if $(URL),--url '$(URL)'))

up: .venv/runtime ## keep web, node and Redis running until Ctrl-C; BIND=127.0.0.1:8000
	$(MANAGE) up $(if $(BIND),--bind '$(BIND)')

test: .venv/dev ## run the tests; ARGS="-k name" goes to pytest
	$(BIN)/python -m pytest $(ARGS)

soak: .venv/dev ## the long versions of the crash and reload tests, some 20 minutes; SEED=2
	RELOADS=50 LISTINGS=2500 $(BIN)/python -m pytest -n0 -s -m process tests/process/test_paper.py
	RELOADS=50 KILLS=60 LISTINGS=2000 $(BIN)/python -m pytest -n0 -s -m process tests/process/test_reload_kills.py
	LISTINGS=5000 $(BIN)/python -m pytest -n0 tests/process/test_demo_crawl.py tests/process/test_kills.py
	$(BIN)/python -m pytest -n0 -m long tests/process/test_rollout.py
	HAND_OVERS=20 $(BIN)/python -m pytest -n0 -m long -k hand tests/process

worlds: .venv/dev ## the tests as a background job, in other time zones and locales, on a slow machine; ARGS="slow -x"
	$(BIN)/python -m tests.worlds $(ARGS)

faults: .venv/dev ## 1250 random faults in crawls by 3 nodes, some 15 minutes; SEED=2 ARGS="--faults 200"
	$(BIN)/python -m tests.faults --seed $(or $(SEED),1) $(ARGS)

mutants: .venv/dev ## break the protocol line by line and see which test notices; ARGS="--only claim.lua"
	$(BIN)/python -m tests.mutants $(ARGS)

bench: .venv/dev ## the standard job beside Scrapy, scrapy-redis and Crawlee; JOB=latency ARGS="--quick"
	$(BIN)/python -m benchmarks.$(or $(JOB),standard) $(ARGS)

check: .venv/dev ## format, lint, types, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest

format: .venv/dev ## format the code and sort its imports
	$(BIN)/ruff check --select I --fix .
	$(BIN)/ruff format .

messages: .venv/dev ## collect the texts of the admin for translation, and compile the translations; needs gettext
	cd crawlservice && ../$(MANAGE:manage.py=../manage.py) makemessages -l zh_Hans --no-location --no-wrap --no-obsolete
	cd crawlservice && ../$(MANAGE:manage.py=../manage.py) compilemessages

lock: .venv/bin/python ## pin the newest versions of requirements*.txt; use the oldest Python 3.11 at hand
	rm -rf build/lock && $(BIN)/python -m venv build/lock
	build/lock/bin/python -m pip install -q --disable-pip-version-check -r requirements.txt
	$(FREEZE) >build/requirements.lock
	build/lock/bin/python -m pip install -q --disable-pip-version-check \
		-r build/requirements.lock -r requirements-dev.txt
	$(FREEZE) | grep -vxFf build/requirements.lock >requirements-dev.lock
	mv build/requirements.lock requirements.lock && rm -rf build/lock

wheel: .venv/bin/python ## build the wheel into dist/
	$(PIP) wheel -q --no-deps --wheel-dir dist .

clean: ## remove the virtual environment and everything built; the data in var/ stays
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo \
		"Crawlframe needs Python 3.11 or newer; name one, as in: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -m venv .venv || { rm -rf .venv; echo \
		"$(PYTHON) cannot make a virtual environment; on Debian install python3-venv" >&2; exit 1; }

.venv/runtime: requirements.lock | .venv/bin/python
	@echo "Installing what Crawlframe needs into .venv (once)"
	@$(PIP) install -q -r requirements.lock
	@touch $@

.venv/dev: requirements-dev.lock .venv/runtime
	@echo "Installing what the tests need into .venv (once)"
	@$(PIP) install -q -r requirements.lock -r requirements-dev.lock
	@touch $@
