# Everything a checkout can do. Needs Python 3.11 or newer, or uv besides it; nothing is installed outside .venv.

.DEFAULT_GOAL := help
.PHONY: help setup setup-release demo up test test-all test-agents check bench wheel packages site site-version pictures lock

# The tests start thousands of processes. Without cached bytecode each one compiles every module again, which doubles
# the time of a start.
unexport PYTHONDONTWRITEBYTECODE

# A folder that does not exist yet is not checked.
PACKAGES := $(wildcard ledger projections workers permission_ledger.py tests bench)
COMMAND  := .venv/bin/permission-ledger
PYTEST   := .venv/bin/python -m pytest

# make test PYTEST_ARGS="-n 0 -x tests/session"
PYTEST_ARGS ?= -n 2

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  make %-13s %s\n", $$1, $$2 }'

setup: ## make .venv with the locked packages (PYTHON=… chooses the interpreter)
	@scripts/setup

demo: setup ## the whole story on an embedded server: ask, reply, expire, replay, verify
	@$(COMMAND) demo

up: setup ## run until Ctrl-C: server (or PERMISSION_LEDGER_URL), expiry worker, projector, gateway with the inbox
	@$(COMMAND) up

test: setup ## the short suite, in five minutes on two cores
	@$(PYTEST) -m "not slow" $(PYTEST_ARGS)

test-all: setup setup-release ## everything: all servers, races, kills, browsers, release tools; a cut run goes on (PARTS="short redis": these)
	@.venv/bin/python -m tests.parts $(PARTS)

test-agents: setup ## journeys of the real agents and frameworks, pinned (PERMISSION_LEDGER_TEST_OFFLINE=1: those that are there; AGENTS_ARGS=--slow: late answers too)
	@.venv/bin/python -m tests.parts agents $(AGENTS_ARGS)

check: setup ## ruff, mypy, the import contracts and the budget of lines
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy $(PACKAGES)
	@.venv/bin/lint-imports
	@.venv/bin/python scripts/budget.py

bench: setup ## measure on this machine
	@.venv/bin/python -m bench

wheel: setup ## build dist/*.whl, and beside it the bill of materials (CycloneDX) of what it runs on
	@rm -rf dist
	@.venv/bin/python -m hatchling build --target wheel --directory dist
	@.venv/bin/python scripts/sbom.py dist

setup-release: setup ## make .venv-release with the locked tools of a release (requirements/release.txt)
	@scripts/setup-release

# pyroma's two skipped tests want an e-mail address and a home page, which the project has not published.
packages: setup-release ## build wheel and sdist reproducibly into dist/, check both as a package index would, and run the demo with uvx
	@rm -rf dist
	@.venv/bin/python scripts/packages.py dist
	@.venv/bin/python scripts/sbom.py dist
	@.venv-release/bin/twine check --strict dist/*.whl dist/*.tar.gz
	@.venv-release/bin/pyroma --min 10 --skip-tests AuthorEmail,Url --file dist/*.tar.gz
	@$(PYTEST) -n 0 -q -m slow tests/release/test_uvx.py

site: setup-release ## build the pages of docs/ into site/; a broken link fails
	@NO_MKDOCS_2_WARNING=1 .venv-release/bin/python -m mkdocs build --strict --quiet

# make site-version VERSION=0.2
SITE_BRANCH ?= gh-pages
SITE_ALIAS  ?= latest
site-version: setup-release ## build the pages as VERSION=… onto the local branch SITE_BRANCH (gh-pages); nothing is pushed (SITE_ALIAS=none: not the newest)
	@scripts/site-version '$(VERSION)' '$(SITE_BRANCH)' '$(SITE_ALIAS)'

pictures: setup ## draw docs/images/*.png anew: real pages of a running gateway, in Chromium
	@.venv/bin/python -m tests.gateway.inbox.pictures

# Versions and hashes for every platform, and no address: where packages come from is the reader's choice.
# A release must have been out for a week: by then mirrors have it, and a bad one has been withdrawn.
LOCK := uv pip compile pyproject.toml --universal --python-version 3.11 --only-binary :all: --generate-hashes \
	--exclude-newer "7 days" --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet

lock: ## write requirements/*.txt anew from pyproject.toml (needs uv; LOCK_ARGS=--upgrade for newer versions)
	@uv --version >/dev/null 2>&1 || { echo "lock: uv was not found"; echo "hint: pip install uv"; exit 1; } >&2
	@$(LOCK) $(LOCK_ARGS) --extra archive --extra embedded --extra gateway --extra mcp --extra notify --extra oidc --extra push --extra telemetry --group dev --output-file requirements/dev.txt
	@$(LOCK) --constraint requirements/dev.txt --extra archive --extra embedded --extra gateway --extra mcp --extra notify --extra oidc --extra push --extra telemetry --output-file requirements/runtime.txt
	@$(subst compile pyproject.toml,compile,$(LOCK)) --constraint requirements/dev.txt --group build \
		--output-file requirements/build.txt
	@$(subst compile pyproject.toml,compile,$(LOCK)) --constraint requirements/dev.txt --group agents \
		--output-file requirements/agents.txt
	@$(subst compile pyproject.toml,compile,$(LOCK)) --constraint requirements/dev.txt --group docs --group release \
		--output-file requirements/release.txt
	@$(subst compile pyproject.toml,compile,$(LOCK)) --group ci --output-file requirements/ci.txt
