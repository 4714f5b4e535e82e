# Needs only GNU make 3.81 and a Python from 3.10 to 3.13. `make setup demo` is all a newcomer types.

PYTHON     ?= python3
VENV       := .venv
BIN        := $(VENV)/bin
UV_VERSION := 0.13.8
INSTALLED  := $(VENV)/.installed
# Packages of those who work on it, which `make test` and its like add; users do without them.
DEVELOPED  := $(VENV)/.developed
EXTRAS     := ui dg s3 gs http offline ray
# uv leaves locks in the folder for temporary files, and torch a folder: they get one that goes.
SCRATCH    := $(VENV)/scratch

# Packages are installed without bytecode, and many containers forbid Python to write it: every process would compile
# thousands of modules again. So what make starts may write it. Compiling all packages would take minutes: setup compiles
# those that commands import, and the first demo or test the rest.
export PYTHONDONTWRITEBYTECODE :=
IMPORTED   := import sentence_transformers, open_clip, av, pyarrow.parquet, sqlglot, dagster_postgres; \
              import orchestration.cli, orchestration.launch, orchestration.definitions, orchestration.doctor; \
              from transformers import AutoModelForSequenceClassification, BertForSequenceClassification, BertModel

.PHONY: setup develop demo test quick attack bench papers papers-data lint types lock clean
.DEFAULT_GOAL := setup

setup: $(INSTALLED)

$(INSTALLED): requirements-setup.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { \
	  echo "Reelsieve needs Python 3.10 to 3.13, and '$(PYTHON)' is not on the PATH: try make setup PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if (3, 10) <= v[:2] < (3, 14) else "Reelsieve needs Python 3.10 to 3.13, and $(PYTHON) is %d.%d: try make setup PYTHON=python3.12" % v[:2])'
	@test -x $(BIN)/python || { echo "Creating $(VENV) with $$($(PYTHON) --version)"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing the pinned packages into $(VENV) (several GB; the first time takes minutes on a slow line)"
	@rm -rf $(SCRATCH) && mkdir $(SCRATCH)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@TMPDIR="$$PWD/$(SCRATCH)" $(BIN)/uv pip install --python $(BIN)/python --require-hashes \
	  -r requirements-setup.lock
	@TMPDIR="$$PWD/$(SCRATCH)" $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps -e .
	@# Dagster's own commands read it: with it `dagster dev` finds this project and its home. It is made once; one of
	@# before the home was named there gets its name.
	@test -e .env || printf '%s\n' "# Where Dagster finds this project; written by make setup." \
	  "DAGSTER_HOME=\$${DAGSTER_HOME:-$$PWD}" "REELSIEVE_DAGSTER_DIR=\$${REELSIEVE_HOME:-$$PWD/.reelsieve}/dagster" \
	  "DAGSTER_DISABLE_TELEMETRY=1" > .env
	@grep -q '^REELSIEVE_HOME=' .env || echo "REELSIEVE_HOME=\$${REELSIEVE_HOME:-$$PWD/.reelsieve}" >> .env
	@echo "Compiling what the commands import, once"
	@TMPDIR="$$PWD/$(SCRATCH)" $(BIN)/python -c '$(IMPORTED)'
	@rm -rf $(SCRATCH)
	@touch $@
	@echo "Reelsieve is installed: try make demo, or $(BIN)/reelsieve --help"

develop: $(DEVELOPED)

$(DEVELOPED): $(INSTALLED)
	@echo "Adding the packages of development"
	@mkdir -p $(SCRATCH)
	@TMPDIR="$$PWD/$(SCRATCH)" $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes \
	  -r requirements.lock
	@rm -rf $(SCRATCH)
	@touch $@

# Its data goes into the checkout, unless another home is named.
demo: setup
	@$(BIN)/reelsieve --home "$${REELSIEVE_HOME:-$$PWD/.reelsieve}" demo
	@test -n "$$REELSIEVE_HOME" || echo "These commands find the demo after:  export REELSIEVE_HOME=\"$$PWD/.reelsieve\""

# Three processes for two cores: who waits for a server, a browser or a program leaves the core to another one.
test: develop
	@$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not expensive"

# What a change needs while one works on it: units, the database, and commands in this process.
QUICK := $(addprefix tests/,metrics_core db orchestration reelsieve golden test_architecture.py)

quick: develop
	@$(BIN)/python -m pytest -n 3 --dist loadfile -m "not slow and not expensive and not browser" $(QUICK)

# First tests marked `expensive`, and properties with 400 examples instead of 25; then the campaigns.
# A campaign takes some minutes, the generator 20, and prints its seed, what it did and what broke; SEED=1 repeats a run
# whose seed was 1.
CAMPAIGNS := manifests folders strange_folders settings_files media filters queries chat_servers backups answers stopped kills drops \
             rater_races rater_links imports_beside_scoring generator
# The kills of several workers, and of actors on Ray: few, since a round takes long.
SCORING   := '--workers 3 --kills 9' '--engine ray --kills 4'

attack: develop
	@failed=0; $(BIN)/python -m pytest -n 3 --dist loadfile -m "expensive or hypothesis" --hypothesis-profile many || failed=1; \
	for name in $(CAMPAIGNS); do \
	  $(BIN)/python -m tests.attack.$$name $(if $(SEED),--seed $(SEED)) || failed=1; \
	done; for scoring in $(SCORING); do \
	  $(BIN)/python -m tests.attack.kills $$scoring $(if $(SEED),--seed $(SEED)) || failed=1; \
	done; exit $$failed

# A benchmark prints a table and writes benchmarks/results/NAME.json; all together take more than an hour on two cores.
# near_duplicates, recipes and ray_engine take long as well, and are run by their own commands: see CONTRIBUTING.
# The VCS authors' package is no dependency of this project, so it is timed against ours in its own environment.
BENCHMARKS := vcs decoding sodam vatex_eval ecs_agreement ecs_ablation qeva_matchers qeva_demo qeva_anet agreement \
              vatex_platform rating_cuts report export schedule million throughput
OFFICIAL   := .venv-bench

bench: develop
	@test -x $(OFFICIAL)/bin/python || $(BIN)/uv venv --quiet --python $(BIN)/python $(OFFICIAL)
	@$(BIN)/uv pip install --quiet --python $(OFFICIAL)/bin/python video-comprehension-score==1.0.0 torch==2.13.0
	@for name in $(BENCHMARKS); do \
	  echo "== $$name"; \
	  python=$(BIN)/python; test $$name = vcs && python=$(OFFICIAL)/bin/python; \
	  $$python -m benchmarks.$$name || exit 1; \
	done

# The papers' tables beside ours: docs/papers.md and docs/papers.json. A run that was stopped goes on where it was.
# TABLES="vcs_2 qeva_1" makes only these. Without the data of a table, it is named and stays as it is.
papers: develop
	@$(BIN)/python -m benchmarks.papers $(TABLES)

papers-data: develop
	@$(BIN)/python -m benchmarks.papers.data

lint: develop
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tests.wording

types: develop
	$(BIN)/mypy

# Keeps the pins that still hold; to move them, delete requirements.lock first. What setup installs is a part of them.
COMPILE := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.10 --generate-hashes --no-emit-index-url \
           --no-header --no-annotate --quiet
lock: develop
	$(COMPILE) --constraint constraints.txt --all-extras --output-file requirements.lock
	$(COMPILE) --constraint requirements.lock $(EXTRAS:%=--extra %) --output-file requirements-setup.lock

# The home of the demo (.reelsieve) stays: it may hold scores that took days.
clean:
	rm -rf $(VENV) $(OFFICIAL) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
