# Everything a checkout needs is Python 3.11 or later, with its venv module, and make.
#
#   make run      start the daemon on config/governor.yaml, its state in ./state
#   make demo     the tour: config/examples/demo.py
#   make test     every check, in the order of what fails fastest
#   make bench    measure
#   make monitoring   a daemon, a sample load and Prometheus together
#   make faults   break real daemons under load, ROUNDS=100 times in each way
#   make fuzz     send a daemon MESSAGES=1000000 random messages, and read random configs
#   make abuse    attack real daemons, and measure what others have of it
#   make reloads  reload real daemons under load, RELOADS=1000 times in all ways
#   make setup    only the development environment, in ./.venv
#   make node     what config/examples/node needs from npm, in ./build/node
#   make page     what the tests of the status page need from npm, in ./build/page
#
# `make PYTHON=/path/to/python3.12 ...` chooses the interpreter. Paths here are relative on purpose: the checkout may
# live in a folder with spaces in its name.

PYTHON ?= python3
CONFIG ?= config/governor.yaml
STATE ?= state
PYTEST_ARGS ?=
BENCH_ARGS ?=
ROUNDS ?= 100
FAULTS_ARGS ?=
RELOADS ?= 1000
MESSAGES ?= 1000000
FUZZ_ARGS ?=
ABUSE_ARGS ?=

# Some images forbid Python to keep what it compiles: then each of the hundreds that the tests start compiles governor anew.
unexport PYTHONDONTWRITEBYTECODE

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

bin := .venv/bin
py := $(bin)/python
pip := $(py) -m pip --quiet --disable-pip-version-check
install := $(pip) install --constraint constraints.txt
sources := pyproject.toml constraints.txt governor/__init__.py
kubectl := tests/deploy/kubectl.txt

.PHONY: help
help:
	@sed -n 's/^#   //p' Makefile

# --- environments -----------------------------------------------------------------------------------------------

$(py):
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "governor needs Python 3.11 or later; '$(PYTHON)' says: $$("$(PYTHON)" --version 2>&1)" >&2; \
	  echo "name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@echo "making .venv with $$("$(PYTHON)" --version 2>&1)"
	@"$(PYTHON)" -m venv --clear .venv || { rm -rf .venv; exit 1; }

# What builds packages is installed first and used without isolation, so that its version is pinned as well. So is pip: the
# one that comes with Python 3.11 takes three times as long for the same packages.
.venv/run.stamp: $(sources) | $(py)
	@echo "installing governor into .venv"
	@$(install) pip hatchling editables setuptools
	@$(install) --no-build-isolation --editable '.[daemon]'
	@touch $@

.venv/dev.stamp: $(sources) $(kubectl) | $(py)
	@echo "installing governor and its development tools into .venv"
	@$(install) pip hatchling editables setuptools
	@$(install) --no-build-isolation --editable '.[dev]'
	@$(pip) install --require-hashes --only-binary :all: --requirement $(kubectl) || \
	  echo "kubectl cannot be installed here: the tests of deploy/kubernetes will fail" >&2
	@touch .venv/run.stamp $@

.venv/bench.stamp: $(sources) | .venv/dev.stamp
	@echo "installing what governor is measured beside into .venv"
	@$(install) --no-build-isolation --editable '.[bench]' || \
	  echo "the extra 'bench' cannot be installed here: what it has will not be measured" >&2
	@touch $@

.PHONY: setup
setup: .venv/dev.stamp

# The packages of the example in Node, which stay out of its folder. Without npm there are none, and its test says so.
build/node/stamp: $(addprefix config/examples/node/,package.json package-lock.json .npmrc)
	@if command -v npm >/dev/null 2>&1; then \
	  echo "installing the packages of the example in Node into build/node" && mkdir -p build/node && \
	  cp $^ build/node/ && npm ci --prefix build/node --no-audit --no-fund --loglevel=error >/dev/null && touch $@; \
	fi

.PHONY: node
node: build/node/stamp
	@test -e build/node/stamp || { echo "this needs npm; on Debian: apt-get install nodejs npm" >&2; exit 1; }

# What the checks of the status page need from npm: the rules of accessibility. The browser is the system's.
build/page/stamp: $(addprefix tests/page/,package.json package-lock.json .npmrc)
	@if command -v npm >/dev/null 2>&1; then \
	  echo "installing the checks of the status page into build/page" && mkdir -p build/page && \
	  cp $^ build/page/ && npm ci --prefix build/page --no-audit --no-fund --loglevel=error >/dev/null && touch $@; \
	fi

.PHONY: page
page: build/page/stamp
	@test -e build/page/stamp || { echo "this needs npm; on Debian: apt-get install nodejs npm" >&2; exit 1; }

# --- use --------------------------------------------------------------------------------------------------------

.PHONY: run demo bench monitoring
run: .venv/run.stamp
	@exec $(bin)/governor serve --config "$(CONFIG)" --state "$(STATE)"

demo: .venv/run.stamp
	@$(py) config/examples/demo.py

bench: .venv/bench.stamp
	@$(py) -m tests.bench $(BENCH_ARGS)

# Needs Prometheus itself; what it writes is in build/monitoring.
monitoring: .venv/run.stamp
	@exec $(py) -m deploy.monitoring

# --- checks -----------------------------------------------------------------------------------------------------

.PHONY: test format-check lint types imports proto-check test-core simulate test-shells test-long faults fuzz abuse reloads
# The tests of everything else mostly wait, so what keeps a processor busy runs beside them, one after the other. All of it is
# installed before, since two would install into the same place at once.
test: .venv/dev.stamp build/node/stamp build/page/stamp
	@$(MAKE) --jobs=2 --output-sync=target test-shells format-check lint imports types proto-check test-core simulate

format-check: .venv/dev.stamp
	@echo "== format"
	@$(bin)/ruff format --check --quiet || { echo "run: make format" >&2; exit 1; }

lint: .venv/dev.stamp
	@echo "== ruff"
	@$(bin)/ruff check --quiet

imports: .venv/dev.stamp
	@echo "== import contracts"
	@$(bin)/lint-imports --no-logo

types: .venv/dev.stamp
	@echo "== mypy"
	@$(py) -m mypy

proto-check: .venv/dev.stamp
	@echo "== generated code"
	@$(py) proto/generate.py --check

# Coverage is asked of the core alone, of those of its tests that are the same each time: there 100 % is a number that means
# something. What examples of Hypothesis's own happen to reach does not count, and they take half as long without.
test-core: .venv/dev.stamp
	@echo "== examples of the core, with coverage"
	@$(py) -m pytest tests/core -m "not hypothesis" --cov --cov-report=term-missing:skip-covered $(PYTEST_ARGS)
	@echo "== properties of the core"
	@$(py) -m pytest tests/core -m hypothesis $(PYTEST_ARGS)

# As many worlds as fit: what befalls them follows from a seed, and a seed that finds something is kept.
simulate: .venv/dev.stamp
	@echo "== simulated worlds"
	@$(py) -m tests.simulate --seconds 20

# Much of it waits for processes, so there are more workers than processors. tests/conftest.py says what begins first.
test-shells: .venv/dev.stamp build/node/stamp build/page/stamp
	@echo "== tests of everything else"
	@$(py) -m pytest tests --ignore=tests/core --numprocesses=5 --dist=loadfile --no-loadscope-reorder $(PYTEST_ARGS)

# The state machines of the engine and of the client for minutes, not seconds, and with other examples each time.
test-long: .venv/dev.stamp
	@$(py) -m pytest tests/core/test_machine.py tests/client/test_machine.py --hypothesis-profile=long --hypothesis-seed=random --timeout=0 $(PYTEST_ARGS)

# Ten rounds and fewer are in the tests of everything else. Each campaign prints its seed; what was wrong with one is kept in
# build/faults. One way, and one seed: make faults FAULTS_ARGS='--harm kill --seed 7'
faults: .venv/dev.stamp
	@$(py) -m tests.faults --rounds $(ROUNDS) $(FAULTS_ARGS)

# Some thousands are in the tests of everything else. A million take about ten minutes. Each campaign prints its seed; what was wrong
# with one is kept in build/fuzz. The same again: make fuzz MESSAGES=1 FUZZ_ARGS='--seed 7 --first 120 --only open --files 0'
fuzz: .venv/dev.stamp
	@$(py) -m tests.fuzz --messages $(MESSAGES) $(FUZZ_ARGS)

# What each attack on a daemon does to another client, and to the daemon's memory. One of them: make abuse ABUSE_ARGS=rapid_reset
abuse: .venv/dev.stamp
	@$(py) -m tests.abuse $(ABUSE_ARGS)

# Forty reloads are in the tests of everything else. A thousand take about seven minutes. What was wrong with one campaign is kept
# in build/reloads, under the seed that is printed.
reloads: .venv/dev.stamp
	@$(py) -m tests.reloads --reloads $(RELOADS)

# --- upkeep -----------------------------------------------------------------------------------------------------

.PHONY: format proto dashboards constraints clean
format: .venv/dev.stamp
	@$(bin)/ruff check --quiet --fix-only
	@$(bin)/ruff format

proto: .venv/dev.stamp
	@$(py) proto/generate.py

dashboards: .venv/dev.stamp
	@$(py) -m deploy.monitoring.dashboards
	@$(py) -m deploy.kubernetes

# Newest versions that pyproject.toml allows, tried in a throw-away environment; `make test` then judges them.
constraints: | $(py)
	@rm -rf build/fresh && $(py) -m venv build/fresh
	@build/fresh/bin/python -m pip --quiet --disable-pip-version-check install --upgrade pip hatchling editables setuptools '.[bench]'
	@{ sed '/^#/!d' constraints.txt; \
	   build/fresh/bin/python -m pip --disable-pip-version-check freeze --all --exclude governord; \
	 } > build/constraints.txt
	@mv build/constraints.txt constraints.txt && rm -rf build/fresh

clean:
	@rm -rf .venv build dist .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find governor tests config proto -name __pycache__ -type d -prune -exec rm -rf {} +
