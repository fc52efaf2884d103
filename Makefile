# One command each. The first one sets up .venv, once.
#
# Use
#   make setup                          only set up .venv: some minutes
#   make index TEXTS=<path> NAME=mine   index a folder of texts, or one file, for search
#   make search DATASET=mine QUERY="..."   ask it; SYSTEM= (hybrid), DEPTH=, VARIANT=
#   make search                         list the systems that can be asked, and how to make others
#   make serve                          search two systems in a browser, and judge; PORT=
#   make agent DATASET=mine             be a tool of agents (MCP over standard input): docs/service.md
#   make results/msmarco/table2.tsv     train, search and compare, on the built-in example
#   make results/mine/best.tsv CONFIG=mine.yaml   the same with your data (mine.yaml: see README)
#   make report DATASET=msmarco         one page about the results: results/msmarco/report.html
#
#   With results, report, verify, search and serve: CONFIG=mine.yaml, or CONFIG="a.yaml b.yaml" (the
#   later one wins); SNAKEMAKE_ARGS="-n" shows what would run. CORES=4 limits the cores.
#
# Check
#   make verify                         check all results by their manifests; DATASET=mine: only these
#   make verify AGAINST=<record.json>   the same, and compare with the record of another run
#   make results/msmarco/table2.record.json   make such a record, of a table
#   make peers                          compare with sentence-transformers (data: configs/peers.yaml)
#   make bench                          compare the speed with other programs; LONG=1 on a GPU
#   make gpu                            on a GPU: measure the rates that plans use, then test
#   make parity AUTHORS=<folder>        compare with the authors' code, cloned into this folder
#
# Develop
#   make lint                           ruff, snakefmt, snakemake --lint, mypy; lines of each room
#   make test                           the fast tests, before each commit
#   make test-ci                        longer tests; .ci/run runs lint, test and test-ci
#   make test-weekly                    very long tests; those with Chromium, SLURM (as root) or a GPU
#   make envs                           write envs/*.yaml from the lock and the scripts' imports
#   make pages                          write what the code says into docs/: config.md, lists of kinds
#   make faults                         kill and break running workflows, many times

SHELL := /bin/bash
PYTHON ?= python3
SNAKEMAKE_ARGS ?=
READY := .venv/ready

ifneq ($(findstring :,$(CURDIR)),)
$(error error: $(CURDIR): expected a folder without a colon, which PATH cannot hold. Clone elsewhere)
endif

# (Recipes name .venv by its relative path: that of this folder may have a space or a quote.)
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export PYTHONNOUSERSITE := 1
export PYTHONPATH := $(CURDIR)

# What a user gives is a text: make expands no dollar sign in it, and the shell takes it from the environment.
USER_TEXTS := CONFIG QUERY DATASET SYSTEM VARIANT DEPTH PORT AGAINST CORES THREADS CLOCK LONG AUTHORS TEXTS NAME TITLE TEXT
ifneq ($(origin NAME),command line)
NAME :=# (WSL names the machine so)
endif
$(foreach name,$(USER_TEXTS),$(if $(value $(name)),$(eval override $(name) := $$(value $(name)))$(eval export $(name))))
export CORES ?= $(shell nproc 2>/dev/null || echo 2)

# The overlays of CONFIG are checked, then read by Snakemake. (An option follows them: Snakemake would take a target
# for one more.)
SNAKEMAKE := set -f; python -m condenser.pipeline.command_line $(if $(strip $(CONFIG)),--configfile $$CONFIG)

.PHONY: help setup test test-ci test-weekly lint report verify index search serve agent faults bench peers gpu parity pages envs FORCE
.DEFAULT_GOAL := help

# The comment at the top of this file, which ends at its first empty line.
help:
	@awk '!/^#/ {exit} {sub(/^# ?/, ""); print}' Makefile

setup: $(READY)

# For these, requirements.lock has hashes. A torch that is built for CUDA also needs requirements-cuda.lock. (Of files
# with hashes pip prefers those of an index, so it downloads torch by its own choice before it compares the hash.)
HAS_HASHES := import sys, platform; sys.exit(not ((3, 11) <= sys.version_info[:2] <= (3, 14) \
  and platform.system() == "Linux" and platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc"))
PIP := .venv/bin/python -m pip install --quiet --disable-pip-version-check

# .venv may be a link to the environment of another checkout: that must keep its own package, and have the versions
# that are pinned here. (Without an index pip succeeds only if there is nothing to install.)
$(READY): requirements.lock pyproject.toml
ifneq ($(shell readlink .venv),)
	@$(PIP) --no-deps --no-index --requirement requirements.lock \
	  || { echo "error: .venv: expected the versions of requirements.lock, which the linked environment lacks. Remove the link."; exit 1; }
else
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("error: Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; try make PYTHON=python3.12 ...")'
	@echo "Setting up .venv (once; some minutes) ..."
	@test -x .venv/bin/pip || $(PYTHON) -m venv .venv
	@if .venv/bin/python -c '$(HAS_HASHES)'; then \
	  grep '^torch==' requirements.lock > .venv/torch.txt; \
	  .venv/bin/python -m pip download --quiet --no-deps --dest .venv/wheels "$$(sed 's/ --hash.*//' .venv/torch.txt)" && \
	  $(PIP) --no-deps --no-index --find-links .venv/wheels --require-hashes --requirement .venv/torch.txt && \
	  rm -r .venv/wheels && \
	  $(PIP) --no-deps --require-hashes --requirement requirements.lock || exit 1; \
	  ! .venv/bin/python -m pip check | grep -q '^torch ' || \
	    $(PIP) --no-deps --require-hashes --requirement requirements-cuda.lock; \
	else \
	  echo "(requirements.lock has no hashes of this platform: its packages are not compared with them)"; \
	  sed 's/ --hash.*//' requirements.lock > .venv/requirements.txt && $(PIP) --requirement .venv/requirements.txt; \
	fi
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@
endif

results/%: $(READY) FORCE
	@$(SNAKEMAKE) --cores "$$CORES" '$(subst ','\'',$@)' $(SNAKEMAKE_ARGS)

# Two processes: a test that runs the workflow uses two cores.
PYTEST := python -m pytest --numprocesses 2 --dist worksteal

test: $(READY)
	$(PYTEST) -m 'not ci and not weekly'

test-ci: $(READY)
	$(PYTEST) -m 'ci and not weekly'

test-weekly: $(READY)
	python -m pytest -m weekly --timeout 7200 -rs

lint: $(READY)
	ruff check .
	ruff format --check .
	snakefmt --check Snakefile rules docs/examples
	snakemake --lint
	mypy
	python benchmarks/rooms.py

report: $(READY)
	@$(SNAKEMAKE) --cores 1 "results/$${DATASET:-msmarco}/report.html" $(SNAKEMAKE_ARGS)

# (Without --nolock, Snakemake would remove the lock of a run that goes on here, when it ends.)
verify: $(READY)
	@$(SNAKEMAKE) --nolock --cores 1 verify $(SNAKEMAKE_ARGS)

# What can be asked is written by Snakemake, which knows the configuration. The program answers; it runs Snakemake
# where what can be asked is out of date.
export MAKE_ARGUMENTS := $(value SNAKEMAKE_ARGS)
index search serve agent: export LIST_KNOWN = $(SNAKEMAKE) --nolock --cores 1 ask $(SNAKEMAKE_ARGS)
ask = python workflow_scripts/ask.py --known .snakemake/known.json --refresh "$$LIST_KNOWN" \
  --overlays "$$CONFIG" --make-arguments="$$MAKE_ARGUMENTS"

index: $(READY)
	@[ "$$TEXTS$$DATASET" ] || { echo "error: expected texts to index: TEXTS=../my/folder, or DATASET=mine CONFIG=mine.yaml." >&2; exit 1; }; \
	files=$$($(ask) --texts "$$TEXTS" --name "$$NAME" --title "$$TITLE" --text "$$TEXT" \
	  --dataset "$$DATASET" --system "$$SYSTEM" --files) || exit 1; \
	dataset=$${files#results/}; dataset=$${dataset%%/*}; \
	($(SNAKEMAKE) --cores "$$CORES" "results/$$dataset/data/collection.jsonl" $(SNAKEMAKE_ARGS)) && \
	($(SNAKEMAKE) --cores "$$CORES" $$files $(SNAKEMAKE_ARGS)) && echo "Ask it: make search DATASET=$$dataset QUERY=\"...\""

search: $(READY)
	@exec $(ask) --dataset "$$DATASET" --system "$$SYSTEM" --variant "$$VARIANT" --depth "$${DEPTH:-10}" --query "$$QUERY"

serve: $(READY)
	@exec $(ask) --serve $(if $(PORT),--port "$$PORT")

agent: $(READY)
	@exec $(ask) --agent --dataset "$$DATASET" --system "$$SYSTEM" --variant "$$VARIANT"

pages: $(READY)
	@python docs/pages.py

envs: $(READY)
	@python benchmarks/envs.py

faults: $(READY)
	python -m pytest tests/faults -m "" --long --timeout 7200 -rP

# On a busy machine THREADS=1 CLOCK=cpu counts processor time.
bench: $(READY)
	@python benchmarks/bench.py --threads "$${THREADS:-$(if $(LONG),$$CORES,2)}" --clock "$${CLOCK:-wall}" \
	  --device $(if $(LONG),auto,cpu) $(if $(LONG),--long) --output results/bench.tsv

PEERS := $(foreach dataset,msmarco squad medquad,results/$(dataset)/peers.tsv)
peers: $(READY)
	@$(SNAKEMAKE) --configfile configs/peers.yaml --cores "$$CORES" $(PEERS) $(SNAKEMAKE_ARGS)
	@python benchmarks/peers.py $(PEERS) --seeds 1 --output results/peers.tsv

gpu: $(READY)
	@python benchmarks/gpu.py --output results/gpu.tsv
	@python -m pytest -m weekly tests/unit/train/test_other_device.py tests/reference/test_search.py

parity: .venv-parity/ready
	@.venv-parity/bin/python benchmarks/parity/parity.py --authors "$$AUTHORS"

.venv-parity/ready: benchmarks/parity/requirements.txt
	$(PYTHON) -m venv .venv-parity
	.venv-parity/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

FORCE:
