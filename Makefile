# Two commands matter: `make up` serves a model, `make test` proves that everything works.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := .cache/uv/bin/uv
LAB := .cache/lab
NODE := .cache/node
RECORDS := $(CURDIR)/.cache/lab-records
TRIALS ?= 20
PAGE ?= docs/explanation/availability-measured.md
lab-long: export LLMGW_RECORDS = $(RECORDS)
export UV_PROJECT_ENVIRONMENT := $(VENV)

.PHONY: help up down check test test-full lab lab-long fix bench docs pins clean

help:
	@echo 'make up        serve the demo model (UP_ARGS="--model PATH --name NAME …" for yours)'
	@echo 'make down      stop everything'
	@echo 'make check     lint, types, structure, unit tests: under a minute'
	@echo 'make test      everything that proves a change: under 15 minutes'
	@echo 'make test-full the long tests too: under an hour'
	@echo 'make lab       three hosts with real etcd, Patroni and keepalived, each in trouble; needs root'
	@echo 'make lab-long  the same with 100 random kills and series of 20 takeovers (TRIALS=20), and a report in docs/'
	@echo 'make fix       format and mend what tools can mend'
	@echo 'make docs      write the generated reference pages'
	@echo 'make bench     measure the data plane'

up: $(VENV)/.run
	@$(BIN)/llmgw up $(UP_ARGS)

down:
	@test ! -x $(BIN)/llmgw || $(BIN)/llmgw down $(DOWN_ARGS)

check: $(VENV)/.dev
	@sh scripts/check.sh

test: $(VENV)/.dev $(LAB)/.ready $(NODE)/.ready check
	@sh scripts/test.sh

test-full: $(VENV)/.dev $(LAB)/.ready $(NODE)/.ready check
	@LLMGW_TEST_FULL=1 sh scripts/test.sh

lab: $(VENV)/.dev $(LAB)/.ready
	$(BIN)/pytest -q -s tests/lab --deselect tests/lab/test_kill_loop.py

# TRIALS=3 LLMGW_KILLS=10 PAGE=/tmp/page.md tries whether it works.
lab-long: $(VENV)/.dev $(LAB)/.ready
	rm -rf $(RECORDS)
	$(BIN)/pytest -q -s tests/lab
	for how in stop kill freeze; do $(BIN)/python -m benchmarks.takeover --how $$how --trials $(TRIALS) || exit 1; done
	for how in stop kill; do $(BIN)/python -m benchmarks.takeover --tls --how $$how --trials $(TRIALS) || exit 1; done
	$(BIN)/python -m benchmarks.takeover --how stop --agents 1000 --trials $(TRIALS)
	$(BIN)/python -m benchmarks.floating_gap --trials $(TRIALS)
	$(BIN)/python -m benchmarks.availability $(RECORDS) $(PAGE)

fix: $(VENV)/.dev
	$(BIN)/ruff check --fix src tests scripts benchmarks
	$(BIN)/ruff format src tests scripts benchmarks

docs: $(VENV)/.dev
	$(BIN)/python scripts/reference.py

bench: $(VENV)/.run
	@$(BIN)/python -m benchmarks.run $(BENCH_ARGS)

pins: $(UV)
	sh scripts/pins.sh $(UV)

clean:
	rm -rf $(VENV) .cache

# The environment. `.run` is what a stranger needs to serve a model, `.dev` adds the tools and libraries of the tests.
# Debian's pip refuses to install into the system, and its venv may be missing: uv comes into a folder of its own.

$(UV): requirements/uv.txt
	@sh scripts/preflight.sh $(PYTHON)
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --require-hashes \
		--target .cache/uv --root-user-action ignore -r requirements/uv.txt
	@touch $@

$(VENV)/bin/python: | $(UV)
	@$(UV) venv --quiet --python $(PYTHON) $(VENV)

$(VENV)/.run: requirements/cpu.txt requirements/demo.txt pyproject.toml | $(VENV)/bin/python
	@echo 'installing into $(VENV)'
	@$(UV) pip install --quiet --python $(VENV) --require-hashes -r requirements/cpu.txt
	@$(UV) pip install --quiet --python $(VENV) --require-hashes --no-deps -r requirements/demo.txt
	@sh scripts/install_self.sh $(UV) $(VENV)
	@touch $@

# The laboratory's database. Debian's Python: the database's user must be able to read it, and may not read ours.
$(LAB)/.ready: requirements/lab.txt | $(UV)
	@mkdir -p $(LAB)
	@$(UV) venv --quiet --clear --python /usr/bin/python3 $(LAB)
	@$(UV) pip install --quiet --python $(LAB) --require-hashes -r requirements/lab.txt
	@touch $@

# Clients for Node.js that are tested against the gateway. Where they cannot be had their tests are skipped and say so.
$(NODE)/.ready: tests/clients/node/package-lock.json
	@mkdir -p $(NODE) && cp tests/clients/node/package.json tests/clients/node/package-lock.json $(NODE)
	@if npm ci --prefix $(NODE) --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null; then touch $@; \
		else echo 'clients for Node.js could not be installed (npm ci): they are not tested'; fi

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	@$(UV) pip install --quiet --python $(VENV) --require-hashes -r requirements/dev.txt
	@touch $@
