# Two commands: `make run` and `make test`. Both begin with `make setup`.
#
# Variables: PYTHON (3.11 or newer), ARGS (more arguments for `spade train` or for pytest).
SHELL := /bin/bash
BIN := .venv/bin
SETUP = PYTHON="$(PYTHON)" scripts/setup.sh
# Tests run tiny tensors: more threads only get in each other's way.
TEST_ENV = OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

.DEFAULT_GOAL := help
.PHONY: help setup dev develop run test test-hostile lint format types protos check-protos images test-cluster docs lock clean

help: ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what a run needs: system packages and .venv
	@$(SETUP) run

dev: ## install what the tests need as well
	@$(SETUP) dev

develop: ## the same, and use the sources in place (editable)
	@$(SETUP) dev editable

run: setup ## self-play on this machine, about seven minutes; ends with a report page
	$(BIN)/spade train --preset quickstart $(ARGS)

test: dev lint types check-protos ## every check and every test
	$(TEST_ENV) $(BIN)/pytest $(ARGS)

test-hostile: dev ## the sandbox against hostile code: both platforms of gVisor, as root, as an ordinary user, in a pod
	scripts/test_hostile.sh $(ARGS)

lint: dev ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: dev ## ruff: mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: dev ## mypy --strict
	scripts/check_types.sh

check-protos: dev ## stubs current, buf lint and format, nothing broken on the wire
	scripts/check_protos.sh

protos: dev ## take changed protos over: format, stubs, baseline
	scripts/check_protos.sh accept

images: ## build the images of all services with buildah or docker (ARGS: --save ARCHIVE, services)
	scripts/images.sh $(ARGS)

test-cluster: dev ## install the chart on the cluster that KUBECONFIG names; LOAD="COMMAND" loads the images first
	@if [ -z "$$KUBECONFIG" ]; then echo "test-cluster: KUBECONFIG is not set, so there is no cluster to test on" >&2; exit 2; fi
	@if [ -n "$(LOAD)" ]; then scripts/images.sh --save build/images.tar && $(LOAD) build/images.tar; fi
	$(TEST_ENV) $(BIN)/pytest -s $(if $(filter tests/%,$(ARGS)),,tests/cluster tests/cluster_cli/test_node.py) $(ARGS)

docs: dev ## write the generated parts of docs/ from the code
	$(BIN)/python scripts/config_reference.py
	$(BIN)/python scripts/metrics_reference.py
	$(BIN)/python scripts/dashboards.py
	$(BIN)/python scripts/chart_schema.py

lock: ## resolve constraints.txt anew (TORCH=... for another torch)
	PYTHON="$(PYTHON)" scripts/lock.sh $(TORCH)

clean: ## remove what was built and .venv; runs stay
	rm -rf .venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
