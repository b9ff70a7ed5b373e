# One-word commands. `make demo` and `make test` need only python3, pip and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SWAPCAL_DATA ?= $(abspath ../shared/data)
export SWAPCAL_DATA
# Tests start many interpreters; without compiled modules each takes a second longer.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo demo-service docs test test-portable kernels simulate test-power test-systems check golden bench bench-baseline bench-files bench-scale bench-service bench-streams bench-batch decisions forgetting monitoring rates measured seeds soak release-check constraints clean help

help:            ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18

setup: $(VENV)/.dev     ## create .venv with everything the tests need

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "$(PYTHON): given $$($(PYTHON) --version 2>&1), expected Python 3.11 or newer: make PYTHON=python3.12 …"; exit 1; }
	@echo "Installing into $(VENV), once: a minute or two, depending on the network."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# $(VENV)/.a,b is the package with the extras a and b; these are the package with a group of developers' needs.
$(VENV)/.%: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e ".[$*]"
	@touch $@

$(addprefix $(VENV)/.,bench dev docs peers release): $(VENV)/.%: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e . --group $*
	@touch $@

$(VENV)/.systems: $(VENV)/bin/python pyproject.toml tests/systems/prepare.sh
	$(BIN)/python -m pip install --quiet -e . --group systems
	PATH="$(abspath $(BIN)):$$PATH" sh tests/systems/prepare.sh
	@touch $@

demo: $(VENV)/.demo     ## stream a demonstration and write its report
	$(BIN)/swapcal demo

demo-service: $(VENV)/.demo,service     ## the service under flights, killed -9 in the middle, and the proof that nothing was lost
	$(BIN)/python examples/demo_service.py

docs: $(VENV)/.docs     ## the site, notebooks run, warnings and broken links are errors (build/site)
	rm -rf build/site
	$(BIN)/python -m sphinx -b html -j 2 -q -W --keep-going docs build/site
	$(BIN)/python docs/check.py build/site

# Linting and types take one core, kernels the others. Of neighbouring tests most are run by one worker, which makes
# what they share once.
test: $(VENV)/.dev     ## lint, type-check and run every test
	$(MAKE) --no-print-directory -j 2 check kernels
	$(BIN)/python -m pytest -n auto --dist worksteal

kernels: $(VENV)/.dev     ## compile what the tests run, on every core
	@$(BIN)/python -m tests.kernels

# numpy says which of its instruction sets can be left out here; OpenBLAS ignores a processor of another architecture.
FEATURES = $$($(BIN)/python -c "from numpy._core import _multiarray_umath as m; print(*m.__cpu_dispatch__)")

test-portable: $(VENV)/.dev     ## all but the service as an old processor computes, another BLAS, cold caches
	cache=$$(mktemp -d) && trap 'rm -rf "$$cache"' EXIT && \
	export OPENBLAS_CORETYPE=Prescott NPY_DISABLE_CPU_FEATURES="$(FEATURES)" \
	NUMBA_CPU_NAME=generic NUMBA_CACHE_DIR="$$cache" && \
	$(BIN)/python -m tests.kernels && $(BIN)/python -m pytest -n auto --dist worksteal \
	--ignore-glob="*/test_service_*" --ignore=src/swapcal/service
	$(BIN)/python -m pytest -m cold tests

test-systems: test-portable $(VENV)/.systems     ## test-portable, then real databases, browsers, kills and full disks
	$(BIN)/python -m pytest -m systems -rs -n 2 --dist loadfile tests/systems

SEEDS ?= 0 99
seeds: $(VENV)/.dev     ## the statistical tests on other data, once for each of SEEDS="0 99"; twenty minutes
	for seed in $$(seq $(SEEDS)); do echo "seed $$seed"; \
	    SWAPCAL_SEED=$$seed $(BIN)/python -m pytest -m statistical tests || exit 1; done

simulate: $(VENV)/.dev     ## the service under faults, clients and clocks of one seed each, for each of SEEDS="0 99" or SEEDS=1000
	$(BIN)/python -m tests.systems.simulator $(SEEDS)

test-power: $(VENV)/.dev     ## power loss at every sync of the store and of state files, a fault at every operation; minutes
	SWAPCAL_POWER=all $(BIN)/python -m pytest -m systems -s tests/systems/test_power.py
	SWAPCAL_POWER=all $(BIN)/python -m pytest -n auto tests/test_failing_disk.py tests/test_follow_failing_disk.py

check: $(VENV)/.dev     ## ruff, mypy --strict, import directions, workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions action.yml

golden: $(VENV)/.dev     ## record tests/golden anew, only for a declared change (PARTS="values texts api saved")
	$(BIN)/python -m tests.golden.record $(PARTS)

bench: $(VENV)/.bench     ## speed against peers, as ratios in one run
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/audit.py
	$(BIN)/python benchmarks/monitor.py

bench-baseline: $(VENV)/.dev     ## speed against a frozen commit, in alternating processes; some four minutes
	$(BIN)/python benchmarks/baseline.py

bench-files: $(VENV)/.bench     ## files larger than memory: peak memory and speed from 1 to 16 million rows
	$(BIN)/python benchmarks/files.py

bench-service: $(VENV)/.dev     ## the service: speed, delays, starts after a crash, memory; an hour and a half
	$(BIN)/python benchmarks/service.py

bench-scale: $(VENV)/.bench $(VENV)/.systems     ## beyond one machine: Spark against its own SQL, river and MCGrad
	$(BIN)/python benchmarks/spark.py

bench-streams: $(VENV)/.bench     ## seven recorded streams against peers (needs SWAPCAL_DATA; writes docs/streams.md)
	$(BIN)/python experiments/streams.py

# In an environment of its own: what MCGrad brings along hides modules that scipy looks for.
bench-batch:     ## eight tables against peers, MCGrad with its torch among them (needs SWAPCAL_DATA; writes docs/batch.md)
	$(MAKE) VENV=$(VENV)-peers $(VENV)-peers/.peers
	$(VENV)-peers/bin/python experiments/batch.py

forgetting: $(VENV)/.bench     ## a short memory against none, calibration over ten seeds (needs SWAPCAL_DATA)
	$(BIN)/python experiments/forgetting.py

decisions: $(VENV)/.bench     ## realised cost of decisions on two streams (needs SWAPCAL_DATA; writes docs/decisions.md)
	$(BIN)/python experiments/decisions.py

monitoring: $(VENV)/.bench     ## false alarms and delays of the monitor (writes docs/monitoring.md)
	$(BIN)/python experiments/monitoring.py

PLAN ?= --small
rates: $(VENV)/.dev     ## the theorems' rates, measured in two minutes (PLAN="--full --docs" for docs/rates.md, hours)
	PYTHONPATH=experiments $(BIN)/python -m rates $(PLAN) --out build/rates

measured: $(VENV)/.bench     ## measure again each page whose code changed since, and stamp it; many hours, resumable (PAGES="streams")
	$(BIN)/python experiments/measured.py $(PAGES)

soak: $(VENV)/.dev     ## numerics after 10^8 updates (many minutes)
	$(BIN)/python -m pytest -m soak -s

release-check: $(VENV)/.release     ## build, check the metadata, try the wheel under Python 3.11 to 3.13; leaves dist/
	$(BIN)/python release/check.py

constraints: $(VENV)/.dev     ## record the versions of all packages here; PIP_CONSTRAINT=release/constraints.txt make setup installs them
	$(BIN)/python -m pip freeze --exclude-editable > release/constraints.txt

clean:           ## remove the environment and caches
	rm -rf $(VENV) $(VENV)-peers dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
