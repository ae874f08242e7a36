# `make help` lists the targets. Everything runs from .venv, which tools/setup makes.
.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV := .venv/bin
ROOT ?= lakequeue-data
# One worker more than there are processors: some tests wait.
UNIT_WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
UNIT_ARGUMENTS := -m pytest -p no:schemathesis -m "not zookeeper" -q -n $(UNIT_WORKERS) --dist worksteal
UNIT := $(VENV)/python $(UNIT_ARGUMENTS)
# Those that drive the pure rules, and all others.
DRIVE_RULES := tests/behaviour $(addprefix tests/unit/,queue_rules queue_access memory_queue ingest consumer_service jobs)
OTHER_UNITS := tests/unit $(addprefix --ignore=,$(filter tests/unit/%,$(DRIVE_RULES)))

.PHONY: help browser sqs-clients screenshots setup up demo failover test check fast lint types contracts sizes docs docs-check unit unit-rest coverage services faults matrix soak rolling-upgrade bench bench-spark bench-front bench-shapes bench-sqs flat notebooks audit site lock clean jars wheel release demo-s3 bench-peers profile

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## prepare .venv (PYTHON=… names the Python), and nothing else
	@PYTHON="$(PYTHON)" tools/setup

jars: setup ## fetch the Delta jars, once
	@$(VENV)/python -m jobs.jars

up: setup ## start the queue and stay (ROOT=lakequeue-data)
	@$(VENV)/lakequeue up --root $(ROOT)

demo: setup ## replay the flights of 2013 through the queue and prove it (RECORDS=20000 for fewer)
	@$(VENV)/python -m examples.flights.demo $(if $(RECORDS),--records $(RECORDS))

failover: setup jars ## kill each leader of a cluster under load, and see who takes over
	@$(VENV)/python -m tools.failover

demo-s3: setup ## the same on an S3 server of this machine (RECORDS=20000 for fewer)
	@$(VENV)/python -m tools.local_s3 $(VENV)/python -m examples.flights.demo --root s3://bucket/demo \
	  $(if $(RECORDS),--records $(RECORDS))

test: setup jars browser sqs-clients ## the checks, and beside them the tests with real services; with FAULTS=1 also those of `make faults`
	@$(VENV)/python -m tools.run_services --checks $(if $(FAULTS),--with-faults)

check: setup lint types contracts sizes docs-check coverage unit-rest ## lint, types, import contracts, sizes, documents, unit tests with coverage

lint: setup ## ruff: rules and format
	@$(VENV)/ruff check .
	@$(VENV)/ruff format --check .

fast: setup ## mend what ruff can mend
	@$(VENV)/ruff check --fix .
	@$(VENV)/ruff format .

types: setup ## mypy, strict, everywhere
	@$(VENV)/mypy

contracts: setup ## who may import whom
	@$(VENV)/lint-imports --no-cache

sizes: setup ## lines of modules, modules of folders, subjects of commits
	@$(VENV)/python -m tools.check_sizes

docs: setup ## write the generated pages anew
	@$(VENV)/python -m tools.generate_docs

docs-check: setup ## fail when a generated page is stale
	@$(VENV)/python -m tools.generate_docs --check

unit: setup ## unit tests, on all cores: no Spark, no ZooKeeper, no network
	@$(UNIT) tests/unit tests/behaviour

coverage: setup ## the unit tests that drive the pure rules, counting which lines and branches they run
	@$(VENV)/python -m coverage erase
	@$(VENV)/python -m coverage run $(UNIT_ARGUMENTS) $(DRIVE_RULES)
	@$(VENV)/python -m coverage combine --quiet
	@$(VENV)/python -m coverage report --include="queue_rules/*" --fail-under=95
	@$(VENV)/python -m coverage report --include="queue_access/*" --fail-under=93

unit-rest: setup # those that `coverage` does not run
	@$(UNIT) $(OTHER_UNITS)

browser: ## install Chromium for the tests of the console, if there is none
	@tools/browser

sqs-clients: setup ## install the clients of SQS that tests of the gateway run, into .venv/clients
	@tools/sqs_clients

services: setup jars browser sqs-clients ## the tests with real services, one of each kind that kills or spoils
	@$(VENV)/python -m tools.run_services $(if $(FAULTS),--with-faults)

faults: setup jars browser sqs-clients ## all tests that kill and spoil, and those that take minutes; with `make test`, all that CI runs
	@$(VENV)/python -m tools.run_services --faults

matrix: setup jars ## every statement of other engines on every table, and every kind of poison (an hour and more)
	@$(VENV)/python -m tools.run_services --matrix

release: setup ## check that a release is whole: its part of the CHANGELOG, its tag, its wheel
	@$(VENV)/python -m tools.check_release

wheel: setup ## build the wheel and the source archive into dist/
	@$(VENV)/python -m hatchling build -d dist

soak: setup jars ## load and random faults for MINUTES=30 (SEED=…, RATE=500); the verdict of the checker
	@$(VENV)/python -m tests.support.soak --minutes $(or $(MINUTES),30) --rate $(or $(RATE),500) \
	  $(if $(SEED),--seed $(SEED))

rolling-upgrade: setup ## the release before and this one share a root under load for MINUTES=10; the verdict of the checker
	@$(VENV)/python -m tests.support.upgrading.rolling --minutes $(or $(MINUTES),10)

bench: setup ## measure (ROUNDS=3, about 20 min); writes bench/results.md and bench/results.json
	@$(VENV)/python -m bench $(if $(ROUNDS),--rounds $(ROUNDS))

bench-spark: setup jars ## measure Spark on a queue (20 min); writes bench/spark.md and bench/spark.json
	@$(VENV)/python -m bench.spark

bench-peers: setup jars .venv/peers/.made-from ## measure lakequeue beside other systems (25 min; QUICK=1: a trial)
	@$(VENV)/python -m bench.peers $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))

# Clients of the other systems, and the profiler: apart, so that .venv gets no larger.
.venv/peers/.made-from: requirements-peers.txt
	@[ -x .venv/peers/bin/python ] || $(VENV)/python -m venv .venv/peers
	@$(VENV)/uv pip sync --quiet --python .venv/peers/bin/python --require-hashes $<
	@cp $< $@

profile: setup jars .venv/peers/.made-from ## where the time and the CPU of a record go; writes docs/benchmarks/profile.md
	@$(VENV)/python -m bench.profiling

bench-front: setup ## measure the services while clients hold them up; writes bench/front.json (BEFORE=DIR: an older checkout)
	@$(VENV)/python -m bench.http.front --json bench/front.json $(if $(BEFORE),--before $(BEFORE))

bench-sqs: setup jars ## measure the SQS gateway, ElasticMQ and moto's server (5 min); writes bench/sqs.json and docs/sqs.md
	@$(VENV)/python -m bench.sqs --json bench/sqs.json --docs docs/sqs.md

bench-shapes: setup ## measure whether more partitions, topics, groups, polls, nodes or records cost; writes docs/benchmarks/shapes.md (BEFORE=DIR)
	@$(VENV)/python -m bench.http.shapes --rounds 3 --whole --json docs/benchmarks/shapes.json --docs docs/benchmarks $(if $(BEFORE),--before $(BEFORE))

flat: setup ## measure whether 20,000 batches take as long at the end as in the beginning (BATCHES=…); writes docs/benchmarks/flat.md
	@$(VENV)/python -m bench.flat --docs docs/benchmarks/flat.md $(if $(BATCHES),--batches $(BATCHES))

notebooks: setup jars ## run the notebooks on a queue of their own; writes docs/notebooks/
	@$(VENV)/python -m tests.support.spark.notebook docs/notebooks

screenshots: setup jars browser ## take the pictures of the console anew; writes docs/console/
	@$(VENV)/python -m tests.support.console.screenshots docs/console

audit: setup ## look for known vulnerabilities of what the lock files name (asks the internet)
	@$(VENV)/python -m venv .venv/audit
	@.venv/audit/bin/pip install --quiet --require-hashes -r requirements-audit.txt
	@.venv/audit/bin/pip-audit --strict --require-hashes --disable-pip -r requirements.txt -r requirements-build.txt

site: setup ## the pages of docs/ as a site, into site/
	@[ -x .venv/site/bin/mkdocs ] || { $(VENV)/python -m venv .venv/site && \
	  .venv/site/bin/pip install --quiet --require-hashes -r requirements-site.txt; }
	@[ -d .venv/site/node_modules/mermaid ] || \
	  npm install --silent --no-save --no-package-lock --prefix .venv/site mermaid@11.12.2
	@NO_MKDOCS_2_WARNING=1 .venv/site/bin/mkdocs build --quiet

lock: setup ## compile the lock files anew from pyproject.toml and requirements-*.in
	@cd . && for name in build java audit site clients peers; do $(VENV)/uv pip compile --quiet --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-header requirements-$$name.in -o requirements-$$name.txt || exit 1; done
	@$(VENV)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --all-extras -c requirements-build.txt pyproject.toml -o requirements.txt

clean: ## remove what was built here; the data of the queue stays
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* .import_linter_cache spark-warehouse
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
