# Every target works alone on a fresh clone: it makes the environment it needs and keeps it.
# Nothing is installed again until pyproject.toml changes. Extra arguments: make test ARGS="-k conv".
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-parity
ARGS ?=

.PHONY: help quickstart test test-unoptimized parity bench docs lint types imports targets support clean

help:
	@echo "make quickstart   train a digit classifier with Lamella, in this folder (< 1 minute)"
	@echo "make test         the whole default test suite"
	@echo "make test-unoptimized   the same with every optional pass of the compiler off"
	@echo "make parity       compare results with PyTorch and JAX (installs both, about 1.5 GB)"
	@echo "make bench        measure beside other frameworks (installs them); tables go to bench-results/"
	@echo "make docs         build the documentation into site/, examples executed"
	@echo "make lint, make types, make imports    ruff, mypy, the layer contracts"
	@echo "make targets      tests of generated code on SSE4.2, AVX2 and AArch64, natively or emulated"
	@echo "make support      write docs/support.md again from the primitives' rules"

$(BIN)/python:
	python="$$(sh tools/find_python.sh)" && "$$python" -m venv $(VENV)

$(PEERS)/bin/python:
	python="$$(sh tools/find_python.sh)" && "$$python" -m venv $(PEERS)

$(VENV)/.installed-vision: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[vision]"
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[dev,vision]"
	@touch $@

$(VENV)/.installed-docs: pyproject.toml $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	@touch $@

$(PEERS)/.installed-parity: pyproject.toml | $(PEERS)/bin/python
	$(PEERS)/bin/python -m pip install --quiet --editable ".[parity,vision]"
	@touch $@

$(PEERS)/.installed-bench: pyproject.toml $(PEERS)/.installed-parity
	$(PEERS)/bin/python -m pip install --quiet --editable ".[bench]"
	@touch $@

quickstart: $(VENV)/.installed-vision
	$(BIN)/lamella quickstart $(ARGS)

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

test-unoptimized: $(VENV)/.installed-dev
	LAMELLA_OPTIMIZE=0 $(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

parity: $(PEERS)/.installed-parity
	$(PEERS)/bin/python -m pytest tests/parity $(ARGS)

bench: $(PEERS)/.installed-bench
	$(PEERS)/bin/python -m benchmarks $(ARGS)

docs: $(VENV)/.installed-docs
	$(BIN)/python -m pytest -q tests/docs/test_examples.py $(ARGS)
	$(BIN)/python -m mkdocs build --strict

lint: $(VENV)/.installed-dev
	$(BIN)/python -m ruff check .

types: $(VENV)/.installed-dev
	$(BIN)/python -m mypy

imports: $(VENV)/.installed-dev
	$(BIN)/lint-imports

targets: $(VENV)/.installed-dev
	$(BIN)/python -m tools.check_targets $(ARGS)

support: $(VENV)/.installed-dev
	$(BIN)/python -m tools.support_table docs/support.md

clean:
	rm -rf $(VENV) $(PEERS) build dist site bench-results .mypy_cache .ruff_cache .pytest_cache
