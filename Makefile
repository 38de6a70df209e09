# Two commands: `make run` and `make test`. Both begin with `make setup`.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin

.PHONY: protos
protos: ## regenerate the stubs of the wire format
	$(BIN)/python protos/generate.py
