# `make lab` starts the course, `make test` proves it.  Needs Python 3.11 or newer and a package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
# A copied or moved checkout, or changed pins, make the environment stale.
WANT = $(CURDIR) $(shell grep -v '^repository' pyproject.toml | cksum)
CPU_TORCH := --retries 0 --no-deps --index-url https://download.pytorch.org/whl/cpu
TORCH := $(shell sed -n 's/.*"\(torch==[^"]*\)".*/\1/p' pyproject.toml)
export PATH := $(CURDIR)/$(BIN):$(PATH)
export JUPYTER_PLATFORM_DIRS := 1

.PHONY: lab setup install test fast ranks nbval grading browser soak notebooks release adopt links student grade demo-class bench clean

lab: setup
	$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) --LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb

setup:
	@test "$$(cat $(STAMP) 2>/dev/null)" = "$(WANT)" || $(MAKE) --no-print-directory install

install:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and f"The course needs Python 3.11 or newer, and $(PYTHON) is {v[0]}.{v[1]}: install one and call make PYTHON=python3.11 ...")'
	@rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	@# the plain index carries torch with gigabytes of CUDA, so try the CPU wheel first
	@$(BIN)/python -m pip install -q $(CPU_TORCH) $(TORCH) 2>/dev/null || true
	$(BIN)/python -m pip install -q $(TORCH)
	$(BIN)/python -m pip install -q -e '.[dev]'
	@echo "$(WANT)" > $(STAMP)

# Everything, fast tiers first.  Each tier names its folders, since to import all tests takes as long as to run some.
test: setup
	@$(MAKE) --no-print-directory fast ranks nbval grading browser

fast: setup
	$(BIN)/ruff check .
	$(BIN)/python -m sources.build --check
	$(BIN)/python -m pytest -q -m "not ranks and not soak" $(foreach folder,run checks grade browser,--ignore=tests/$(folder))

ranks: setup
	$(BIN)/python -m pytest -q -m "ranks and not soak" tests/run tests/checks tests/compare

nbval: setup
	$(BIN)/python -m pytest -q --nbval --nbval-current-env --nbval-sanitize-with=tests/sanitize.cfg \
	    --nbval-cell-timeout=120 --nbval-kernel-startup-timeout=120 notebooks

grading: setup
	$(BIN)/python -m pytest -q -m "not soak" tests/grade

browser: setup
	$(BIN)/python -m pytest -q -m "not soak" tests/browser

# What `make test` leaves out: runs repeated many times, and full matrices of which it has a part.
soak: setup
	$(BIN)/python -m pytest -q -m soak

# What authors run after editing sources/.
notebooks: setup
	$(BIN)/python -m sources.build

release: setup
	$(BIN)/python -m helpers.grade release

adopt: setup
	$(BIN)/python -m sources.adopt $(NB)

links: setup
	$(BIN)/python -m sources.links

student: setup
	$(BIN)/python -m helpers.grade student

# What instructors run.
grade: setup
	$(BIN)/python -m helpers.grade grade $(if $(filter off,$(SANDBOX)),--no-sandbox)

# Thirty submissions of all kinds, graded in build/demo-class.
demo-class: setup
	$(BIN)/python -m helpers.grade demo

bench: setup
	$(BIN)/python -m benchmarks.launch
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.ring
	$(BIN)/python -m benchmarks.ddp
	$(BIN)/python -m benchmarks.zero
	$(BIN)/python -m benchmarks.simulate
	$(BIN)/python -m benchmarks.pipeline
	$(if $(wildcard tests),$(BIN)/python -m benchmarks.checks)
	$(if $(wildcard tests),$(BIN)/python -m benchmarks.grading)

clean:
	rm -rf $(VENV) build *.egg-info
