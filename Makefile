# Two commands: `make run` and `make test`. Everything lives in .venv; nothing else is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: run test lint bench soak tensorboard format clean

run: $(STAMP)
	$(BIN)/gradscope run quick

test: $(STAMP)
	$(BIN)/python -m pytest tests -m "not soak" -n 2 --dist loadfile

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

soak: $(STAMP)
	$(BIN)/python -m pytest tests -m soak --timeout 3600

tensorboard: $(STAMP)
	$(BIN)/gradscope tensorboard traces

# pip takes the CPU build of torch where the index offers it; constraints.txt pins what the tests run on.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt --group dev -e .
	touch $(STAMP)

clean:
	rm -rf $(VENV)
