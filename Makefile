# Two commands do everything on a fresh machine: `make crawl` and `make test`.

PYTHON ?= python3

# `make crawl url=...` means the same as URL=..., and a variable that means nothing is refused.
VARIABLES := PYTHON SPIDER URL ARGS BIND SEED JOB MINUTES HOURS
typed = $(filter command,$(firstword $(origin $1)))
lower = $(shell echo $1 | tr '[:upper:]' '[:lower:]')
$(foreach name,$(VARIABLES),$(if $(call typed,$(call lower,$(name))),\
	$(eval override $(name) := $$($(call lower,$(name))))))
UNKNOWN := $(filter-out $(VARIABLES) $(call lower,$(VARIABLES)) BIN PIP MANAGE MAKEFLAGS -%,\
	$(foreach name,$(.VARIABLES),$(if $(call typed,$(name)),$(name))))
$(if $(UNKNOWN),$(error there is no variable $(firstword $(UNKNOWN)); the variables are $(VARIABLES)))

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
EXTRAS := $(filter-out requirements-dev.txt requirements-docs.txt,$(wildcard requirements-*.txt))
MANAGE := $(BIN)/python manage.py
WHAT := $(if $(SPIDER)$(URL),$(MANAGE) crawl $(or $(SPIDER),site),$(BIN)/python -m examples.demo_site.crawl --workers 2)
SPHINX := build/docs/bin/python -m sphinx --fail-on-warning --keep-going --quiet --doctree-dir build/docs/trees
# A lock holds everything that a group needs, for every Python and platform, with hashes.
COMPILE := build/lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --upgrade

# The steps of pip, in short: `$(call install,PIP,ARGUMENTS)`. The status is pip's own.
define install
@{ $1 install --progress-bar off $2 && echo done; } | { status=1; n=0; while read -r word name rest; do \
	case "$$word" in \
		Collecting) n=$$((n + 1)); printf '  %3d  %s\n' $$n "$$name" ;; \
		Downloading) case "$$rest" in *" MB)") echo "       downloading $$name $$rest" ;; esac ;; \
		Installing) echo "       installing them" ;; \
		done) status=0 ;; \
	esac; done; exit $$status; }
endef

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help crawl up test quick soak worlds simulate faults morning mutants bench weight check format messages judges docs links lock wheel clean

help: ## show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1	/' | expand -t 20

crawl: .venv/runtime ## crawl the demo site; SPIDER=name ARGS="k=v k2=v2" URL=... crawls something else
	$(strip $(WHAT) $(foreach pair,$(ARGS),-a '$(pair)') $(if $(URL),--url '$(URL)'))

up: .venv/runtime ## keep web, node and Redis running until Ctrl-C; BIND=127.0.0.1:8000
	$(MANAGE) up $(if $(BIND),--bind '$(BIND)')

test: .venv/dev ## run the tests; ARGS="-k name" goes to pytest
	$(BIN)/python -m pytest $(ARGS)

quick: .venv/dev ## run the tests that need no server, process or browser, in 2 minutes; ARGS="-k name"
	$(BIN)/python -m pytest -m quick $(ARGS)

soak: .venv/dev ## the long versions of the tests, all on both databases, some 40 minutes; SEED=2
	RELOADS=50 LISTINGS=2500 $(BIN)/python -m pytest -n0 -s -m process tests/process/test_paper.py
	RELOADS=50 KILLS=60 LISTINGS=2000 $(BIN)/python -m pytest -n0 -s -m process tests/process/test_reload_kills.py
	LISTINGS=5000 $(BIN)/python -m pytest -n0 -m process tests/process/test_demo_crawl.py
	WARC_KILLS=200 $(BIN)/python -m pytest -n0 -s -m process tests/process/test_warc_kills.py
	$(BIN)/python -m pytest -m long --ignore=tests/process
	HAND_OVERS=20 $(BIN)/python -m pytest -n0 -m long tests/process \
		$(foreach name,paper reload_kills demo_crawl warc_kills,--ignore=tests/process/test_$(name).py)

worlds: .venv/dev ## the tests as a background job, in other time zones and locales, on a slow machine; ARGS="slow -x"
	$(BIN)/python -m tests.worlds $(ARGS)

simulate: .venv/dev ## a cluster on simulated time with random faults, judged; SEED=7 shows one run; MINUTES=3 HOURS=8
	$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) \
		$(if $(HOURS),--hours $(HOURS)) $(ARGS)

faults: .venv/dev ## 1250 random faults in crawls by 3 nodes, some 15 minutes; SEED=2 ARGS="--faults 200"
	$(BIN)/python -m tests.faults --seed $(or $(SEED),1) $(ARGS)

morning: .venv/dev ## a night goes wrong: how soon it is alerted, how many clicks solve it
	$(BIN)/python -m tests.morning $(ARGS)

mutants: .venv/dev ## break the protocol line by line and see which test notices; ARGS="--only complete.lua"
	$(BIN)/python -m tests.mutants $(ARGS)

bench: .venv/dev ## the standard job beside Scrapy, scrapy-redis and Crawlee; JOB=latency ARGS="--quick"
	$(BIN)/python -m benchmarks.$(or $(JOB),standard) $(ARGS)

weight: .venv/dev ## how much there is to carry, beside the limits and goals; ARGS="--exact"
	$(BIN)/python -m benchmarks.weight $(ARGS)

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

judges: ## install pywb and py-wacz, with which tests judge our WARC files
	$(PYTHON) -m venv build/judges && build/judges/bin/python -m pip install --disable-pip-version-check -q -r tests/warc/judges.txt

docs: build/docs/ready ## build the documentation into build/site; a broken link or reference is an error
	$(SPHINX) -b html docs build/site && echo "Open build/site/index.html"

links: build/docs/ready ## check the documentation's links to other sites
	$(SPHINX) -b linkcheck docs build/links

lock: .venv/bin/python ## pin the newest versions of requirements*.txt, with hashes, in the locks
	rm -rf build/lock && $(BIN)/python -m venv build/lock
	build/lock/bin/python -m pip install --disable-pip-version-check -q 'uv>=0.9,<1'
	$(COMPILE) requirements.txt -o requirements.lock
	$(COMPILE) requirements.txt $(EXTRAS) -c requirements.lock -o requirements-all.lock
	$(COMPILE) requirements.txt $(EXTRAS) requirements-dev.txt -c requirements-all.lock \
		-o requirements-dev.lock
	$(COMPILE) requirements-docs.txt -c requirements.lock -o requirements-docs.lock
	rm -rf build/lock

wheel: .venv/bin/python ## build the wheel into dist/
	rm -rf build/lib build/bdist.*
	$(PIP) wheel -q --no-deps --wheel-dir dist .

clean: ## remove the virtual environment and everything built; the data in var/ stays
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo \
		"Crawlframe needs Python 3.11 or newer; name one, as in: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Making the virtual environment .venv with $(PYTHON)"
	@$(PYTHON) -m venv .venv || { rm -rf .venv; echo \
		"$(PYTHON) cannot make a virtual environment; on Debian install python3-venv" >&2; exit 1; }

.venv/runtime: requirements.lock | .venv/bin/python
	@echo "Installing what Crawlframe needs into .venv (once): $$(grep -c == requirements.lock) packages"
	$(call install,$(PIP),--require-hashes -r requirements.lock)
	@touch $@

.venv/dev: requirements-dev.lock .venv/runtime
	@echo "Installing what the tests need into .venv (once):" \
		"$$(($$(grep -c == requirements-dev.lock) - $$(grep -c == requirements.lock))) packages more"
	$(call install,$(PIP),--require-hashes -r requirements-dev.lock)
	@touch $@

# The documentation's packages stay out of .venv; its modules are imported for their docstrings, so
# Crawlframe's own requirements are added behind them.
build/docs/ready: requirements-docs.lock | .venv/runtime
	@rm -rf build/docs && $(BIN)/python -m venv build/docs
	@echo "Installing what the documentation needs into build/docs (once): $$(grep -c == requirements-docs.lock) packages"
	$(call install,build/docs/bin/python -m pip --disable-pip-version-check --no-input,-r requirements-docs.lock)
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		>"$$(build/docs/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/crawlframe.pth"
	@touch $@
