# The one way to do each chore. `make` alone lists the verbs.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
PORT ?= 8000
BIN := .venv/bin
# nbgrader starts `alembic` by name, so the environment's own programs must be found first.
IN := PATH="$(CURDIR)/$(BIN):$$PATH"
export PYDEVD_DISABLE_FILE_VALIDATION := 1

.PHONY: help setup doctor lessons check book serve course test constraints clean

help:  ## list the verbs
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

setup:  ## make .venv and install what the course needs (TORCH=no leaves torch out)
	@command -v "$(PYTHON)" >/dev/null || { echo "There is no $(PYTHON): install Python 3.11 or newer (Debian: apt-get install python3 python3-venv)." >&2; exit 1; }
	@"$(PYTHON)" -I autograder/staff/set_up.py $(if $(TORCH),--torch "$(TORCH)")

doctor:  ## tell what this machine has and lacks, each with its cure
	@if [ -x $(BIN)/python ]; then $(IN) python -m autograder.staff.doctor; else "$(PYTHON)" -m autograder.staff.doctor; fi

lessons: setup  ## renew what derives from the lessons' text (LESSON=02 renews one)
	@$(IN) autograder lessons $(LESSON)

check: setup  ## quick checks: ruff, spelling and prose, and nothing derived is stale
	@$(IN) ruff check --output-format concise .
	@$(IN) autograder prose
	@$(IN) autograder lessons --check

book: lessons  ## build the static book into _build/html
	@$(IN) jupyter-book build -q -W --keep-going .

serve: book  ## build the book and serve it to this machine only (PORT=8000)
	@$(BIN)/python -c 'import socket; socket.create_server(("127.0.0.1", $(PORT)))' 2>/dev/null || { echo "Port $(PORT) is taken: make serve PORT=8001" >&2; exit 1; }
	@echo "The book is at http://127.0.0.1:$(PORT)/ until Ctrl-C."
	@$(BIN)/python -m http.server --bind 127.0.0.1 --directory _build/html $(PORT)

course: book  ## the whole road: set-up, lessons, book, a course with a sample class, graded
	@$(IN) autograder course

test: setup  ## run every test (ARGS="-k name" runs some)
	@$(IN) python -m pytest -n 2 --dist loadfile $(ARGS)

constraints:  ## pin requirements.txt anew, to the newest versions within its bounds
	@scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT \
	&& "$(PYTHON)" -m venv "$$scratch" && "$$scratch/bin/pip" install -q --disable-pip-version-check "pip-tools==7.6.2" \
	&& "$$scratch/bin/pip-compile" --quiet --upgrade --no-header --no-emit-find-links --no-emit-index-url --no-annotate \
		--strip-extras --output-file "$$scratch/constraints.txt" requirements.txt \
	&& sed 's/^\(torch==[^+]*\)+.*/\1/' "$$scratch/constraints.txt" > constraints.txt \
	&& echo "constraints.txt has $$(grep -c == constraints.txt) exact versions; run make test before you keep it."

clean:  ## remove what can be made again; .venv and copies of your edits in _build/kept stay
	@if [ -d _build ]; then find _build -mindepth 1 -maxdepth 1 ! -name kept -exec rm -rf {} +; fi
	@rm -rf build *.egg-info .pytest_cache .ruff_cache .hypothesis
	@find autograder tests book source_assignments -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
