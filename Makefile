# Everything a newcomer needs: `make demo` and `make test` do their own set-up.
PY := .venv/bin/python
AUSTRALIS := .venv/bin/australis

.PHONY: demo demo-single demo-cluster test lint unit long setup bench explore property crash chaos sim peers clean help

help: ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: .venv/ready ## virtual environment, pinned dependencies, Java

.venv/ready: requirements.txt requirements-dev.txt pyproject.toml scripts/setup.sh
	@bash scripts/setup.sh

demo: setup ## two replicas of a query on Spark; one is killed, a site is cut off; three minutes
	@$(PY) -m examples.demo

demo-single: setup ## the network-monitoring query on one Spark, about a minute
	@$(PY) -m examples.demo_single

demo-cluster: setup ## the same on a standalone Spark cluster with two workers
	@$(PY) -m examples.demo_cluster

test: setup lint ## all tests but the long ones, some 13 minutes on 2 cores; says what took longest
	@$(PY) -m pytest --numprocesses=3 -m "not long" --durations=25

lint: setup ## ruff and mypy
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy

unit: setup ## the tests that need neither Spark nor nodes nor a simulated world, a minute
	@$(PY) -m pytest --numprocesses=2 -m unit

long: setup ## the tests that `make test` leaves out; beside them: property, crash, chaos, sim
	@$(PY) -m pytest --numprocesses=2 -m long --durations=25 --timeout=1800

explore: setup ## property tests with new random examples, ten times as many as `make test` tries
	@AUSTRALIS_HYPOTHESIS=explore $(PY) -m pytest --numprocesses=2 -m "unit or sim" --timeout=1800

property: setup ## every operator under ten random data sets, against DuckDB
	@AUSTRALIS_EXAMPLES=10 $(PY) -m pytest tests/spark/test_operators.py --timeout=3600

crash: setup ## kill -9 at random moments, a hundred times
	@AUSTRALIS_CRASHES=100 $(PY) -m pytest tests/end_to_end/test_crash.py --timeout=7200

chaos: setup ## clusters of real processes, on Spark too, that are killed and cut off; half an hour on 2 cores
	@$(PY) -m pytest tests/chaos --numprocesses=2 --dist=loadgroup --durations=25 --timeout=1800

sim: setup ## fault schedules of every protocol in the simulated world, some twenty-five thousand of DPC's
	@$(AUSTRALIS) sim ants --seeds 0:1999
	@$(AUSTRALIS) sim elasticity --seeds 0:1999
	@$(AUSTRALIS) sim contracts --seeds 0:1999
	@$(AUSTRALIS) sim contracts --preset permanent --seeds 0:1999
	@$(AUSTRALIS) sim ring --seeds 0:1999
	@$(AUSTRALIS) sim register --seeds 0:9999
	@$(AUSTRALIS) sim movement --seeds 0:4999
	@$(AUSTRALIS) sim dpc --preset deployed --seeds 0:4999
	@$(AUSTRALIS) sim dpc --seeds 0:19999

peers: setup .peers/ready ## Flink, for `australis bench failover|partition --peers`

.peers/ready: requirements-peers.txt
	@echo "peers: installing Flink into .peers (some 850 MB)"
	@$(PY) -m venv .peers
	@.peers/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-peers.txt
	@touch .peers/ready

bench: setup ## Australis beside bare Structured Streaming
	@$(AUSTRALIS) bench engine

clean: ## remove what was built and run
	rm -rf .venv .peers .pytest_cache .mypy_cache .ruff_cache .hypothesis .australis examples/out
