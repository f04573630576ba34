# Every task of the book. `make` lists them.

# The Python that .venv is made from: 3.11, 3.12 or 3.13.
PYTHON = python3
# Where to take torch from, if not from the usual index: on Linux without a GPU,
# https://download.pytorch.org/whl/cpu saves gigabytes.
TORCH_INDEX =
# make book SERVE=0 only builds.
SERVE = 1
# make test STAGES="unit mutants" runs only these.
STAGES =
# make lab ARGS="--no-browser --port 8889" passes these on; so does make release.
ARGS =

# Where this is set every process would compile torch anew, for half a minute.
unexport PYTHONDONTWRITEBYTECODE

AIINFRA = .venv/bin/aiinfra
NEED_PYTHON = command -v "$(PYTHON)" >/dev/null || { \
  echo "aiinfra: there is no $(PYTHON) here; install Python 3.11, 3.12 or 3.13," \
  "or say PYTHON=/path/to/python" >&2; exit 2; }
INSTALL = @$(NEED_PYTHON); TORCH_INDEX="$(TORCH_INDEX)" "$(PYTHON)" book/bootstrap.py

.PHONY: help book lab doctor test test-gpu bench lint check release clean

help: ## list the tasks
	@echo "make TASK:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' Makefile

book: ## read: build the site and serve it here (SERVE=0 only builds)
	$(INSTALL) site
	@$(AIINFRA) build
	@test "$(SERVE)" = 0 || $(AIINFRA) serve

lab: ## run: open JupyterLab on the lessons (ARGS=--no-browser)
	$(INSTALL) lab
	@$(AIINFRA) lab $(ARGS)

doctor: ## what this machine can run, and why not the rest; installs nothing
	@$(NEED_PYTHON); if test -x $(AIINFRA); then $(AIINFRA) doctor; else \
	  "$(PYTHON)" book/bootstrap.py --check && \
	  PYTHONPATH=book "$(PYTHON)" -m aiinfra.tools.cli doctor; fi

test: ## check: run every check (STAGES="unit mutants" only these)
	$(INSTALL) test
	@$(AIINFRA) test $(STAGES)

test-gpu: ## run the notebooks on this machine's accelerators and record it
	$(INSTALL) test
	@$(AIINFRA) test --gpu

bench: ## measure what the book claims about its own speed
	$(INSTALL) test
	@$(AIINFRA) bench

lint: ## style and spelling of code, notebooks and prose
	$(INSTALL) test
	@$(AIINFRA) test lint

check: ## the gates: everything that can be checked by reading
	$(INSTALL) test
	@$(AIINFRA) check

release: ## make the files of a release in dist: zips, PDF, ePub
	$(INSTALL) teach
	@$(AIINFRA) release $(ARGS)

clean: ## remove what was built; .venv stays
	@rm -rf _build dist .pytest_cache .ruff_cache .hypothesis
	@find . -path ./.venv -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints \) \
	  -prune -exec rm -rf {} +
