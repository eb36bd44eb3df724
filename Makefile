# Both commands do all the set-up that they need: `make kernels` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: kernels test lint fuzz-long bench clean

kernels: $(INSTALLED)
	$(BIN)/kgen build
	$(BIN)/kgen fuzz --examples 10

test: lint
	$(BIN)/pytest -n auto --dist loadfile

lint: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

fuzz-long: $(INSTALLED)
	HYPOTHESIS_PROFILE=long $(BIN)/pytest -n auto tests/kernels tests/ptx tests/spec
	$(BIN)/kgen fuzz --examples 2000 --seed $$(date +%s)

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks.interpreter

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

clean:
	rm -rf .venv .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis dist
