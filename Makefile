# edgec: what to type. `make` alone prints this list.

PYTHON := .venv/bin/python
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-c test-all lint format coverage operators bench zoo pages cuda-modules wheels clean

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:  ## install what is needed (Debian packages, .venv); quick when nothing changed
	@scripts/setup

demo: setup  ## train, export, compile and run a digit reader on the CPU and on Vulkan
	@$(PYTHON) scripts/demo.py

test: setup  ## lint, types and every fast test
	@$(PYTHON) scripts/test.py

test-c: setup  ## the tests of edgert, the runtime in C, alone
	@$(PYTHON) scripts/test.py tests/c

test-all: setup  ## the same with the slow sweeps
	@$(PYTHON) scripts/test.py --all

lint: setup  ## style and types only
	@$(PYTHON) scripts/test.py --lint-only

format: setup  ## put the code into shape
	@$(PYTHON) -m ruff check --fix .
	@$(PYTHON) -m ruff format .

operators: setup  ## run every operator case on the CPU and on Vulkan and write docs/operators.md
	@$(PYTHON) -m benchmarks.operators

coverage: setup  ## run every model and feature case and write docs/coverage.md
	@$(PYTHON) -m benchmarks.coverage

bench: setup  ## measure edgec beside its peers, and write docs/benchmarks.md and its plot
	@$(PYTHON) -m pip install -q -c constraints.txt --group bench
	@$(PYTHON) -m benchmarks.peers

zoo: setup  ## export, compile, prove and time models that nobody tuned for, and write docs/zoo.md
	@$(PYTHON) -m pip install -q -c constraints.txt --group zoo
	@$(PYTHON) -m benchmarks.zoo

pages: setup  ## say which pages of measurements are older than what they measure
	@$(PYTHON) -m benchmarks.standing

cuda-modules: setup  ## compile the CUDA benchmark's modules into build/cuda; docs/benchmarks_cuda.md says how to run them
	@$(PYTHON) benchmarks/cuda/modules.py build/cuda

wheels: setup  ## build the wheels of edgec and, for every platform, of edgec-runtime into dist/
	@$(PYTHON) scripts/wheels.py

clean:  ## remove what building and testing leave behind (.venv stays)
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
