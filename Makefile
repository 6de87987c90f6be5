# Needs Python 3.11 or newer and make, nothing else. `make fuse` and `make test` install everything first.

.DEFAULT_GOAL := help
.PHONY: help setup compiled fuse serve test neo4j test-neo4j cognee test-cognee frameworks test-frameworks hosts test-hosts browser observe test-observe cluster test-cluster image features lint format lock bench wheel clean
.DELETE_ON_ERROR:

# PYTHON=/path/to/python3.12 make fuse      to choose one
PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3 python,$(if $(shell $(p) -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo y),$(p))))

VENV   := .venv
BIN    := $(VENV)/bin
LOCKS  := requirements.txt requirements-dev.txt
# One stamp for each version of the lock files: a changed lock installs again, also when an older commit is checked out.
STAMP  := $(VENV)/.stamp-$(firstword $(shell cat pyproject.toml $(LOCKS) | cksum))
CONFIG := .fusion/fusion.toml
SAMPLE := $(addprefix config/sample/,workspace sessions.jsonl facts.jsonl)

QUESTION ?= what did we decide about the database?
BENCH    ?= overhead

help:
	@echo "make fuse        set up, ingest the sample workspace, ask four memories one question"
	@echo "make serve       run the gateway on http://127.0.0.1:8765"
	@echo "make test        set up and run all tests"
	@echo "make test-neo4j  tests with a real Neo4j, which Maven downloads"
	@echo "make test-cognee tests with a real Cognee, in its own environment"
	@echo "make test-frameworks  tests with real frameworks of agents, in their own environments"
	@echo "make test-hosts  tests with real Claude Code, Codex, Gemini CLI, opencode, MCP Inspector, OpenClaw and QMD, which npm downloads"
	@echo "make browser     install Debian's Chromium for the tests in a browser, if you are root and have apt-get"
	@echo "make test-browser  tests of the inspector in that Chromium"
	@echo "make observe     install Debian's Prometheus, if you are root and have apt-get, and the schema of Grafana's dashboards"
	@echo "make test-observe  tests of the metrics, alerts and dashboard with them"
	@echo "make cluster     install Debian's Caddy, if you are root and have apt-get, and the schemas of Compose and Kubernetes"
	@echo "make test-cluster  tests of compose/cluster.yaml and compose/kubernetes with them"
	@echo "make features    rewrite tests/FEATURES.md from the markers on the tests"
	@echo "make lint        run ruff, mypy and the import contracts"
	@echo "make bench       run python -m benchmarks; BENCH='locomo --data …' chooses which"
	@echo "make lock        rewrite requirements*.txt and compose/requirements.txt from pyproject.toml"
	@echo "make wheel       build dist/memory_fusion-*.whl"
	@echo "make image       build the container's image with buildah, from Debian's packages: dist/memory-fusion-image.tar"
	@echo "make clean       remove what make made, but keep your memories in .fusion"

setup: $(STAMP)

# `step 2/4 "what it does" command …` says on stderr what runs, a sign of life every ten seconds, and how long it took.
# The command's own output is shown only if it fails.
define STEP
step() { \
    printf '  %s  %s ' "$$1" "$$2" >&2; shift 2; began=$$(date +%s); log=$$(mktemp); \
    "$$@" >"$$log" 2>&1 & pid=$$!; waited=0; \
    trap 'kill $$pid 2>/dev/null; rm -f "$$log"; exit 130' INT TERM; \
    while kill -0 $$pid 2>/dev/null; do \
        sleep 1; waited=$$((waited + 1)); [ $$((waited % 10)) -ne 0 ] || printf '… %s s ' "$$waited" >&2; \
    done; \
    if wait $$pid; then printf -- '– %s s\n' "$$(($$(date +%s) - began))" >&2; rm -f "$$log"; \
    else status=$$?; printf -- '– failed\n' >&2; cat "$$log" >&2; rm -f "$$log"; return $$status; fi; \
}
endef

# uv, hash-pinned like everything else, installs in seconds what pip installs in a minute. It does not read pip's
# settings, so it gets the index from here. If it fails, pip installs instead.
$(STAMP):
	@if [ -z "$(PYTHON)" ]; then \
	    echo "memory-fusion needs Python 3.11 or newer, and none was found. Install it, or name it: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; \
	    exit 1; fi
	@rm -f $(VENV)/.stamp-*
	@PIP_DISABLE_PIP_VERSION_CHECK=1; export PIP_DISABLE_PIP_VERSION_CHECK; $(STEP); \
	count=$$(cat $(LOCKS) | sed -n 's/^\([A-Za-z0-9._-]*\)==.*/\1/p' | sort -u | wc -l | tr -d ' '); \
	echo "Setting up $(VENV), once: about a minute, 1.3 GB. Only this folder is written to." >&2; \
	step 1/4 "a virtual environment with $$($(PYTHON) --version)" sh -c \
	    "$(BIN)/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)" || exit 1; \
	awk '/^[^ #]/ { uv = /^uv==/ } uv' requirements-dev.txt > $(VENV)/uv.txt; \
	index="$${UV_DEFAULT_INDEX:-$${UV_INDEX_URL:-$${PIP_INDEX_URL:-$$($(BIN)/pip config get global.index-url 2>/dev/null)}}}"; \
	{ step 2/4 "uv, which installs the rest" $(BIN)/pip install --quiet --require-hashes -r $(VENV)/uv.txt && \
	  step 3/4 "$$count packages, each checked by its hash" env -u UV_INDEX_URL $${index:+UV_DEFAULT_INDEX="$$index"} \
	    $(BIN)/uv pip sync --quiet --compile-bytecode --require-hashes --python $(BIN)/python $(LOCKS); } || \
	step 3/4 "uv could not: pip installs $$count packages (a minute or two)" \
	    $(BIN)/pip install --quiet --require-hashes $(LOCKS:%=-r %) || exit 1; \
	step 4/4 "memory-fusion itself" $(BIN)/pip install --quiet --no-deps --no-build-isolation --no-index --editable .
	@touch $@

$(CONFIG): | $(STAMP)
	@mkdir -p -m 700 $(@D)
	@install -m 600 config/sample/fusion.toml $@
	@echo "Wrote $@: the settings of this checkout's own home. Yours to edit." >&2

# In this folder, `fusion` finds .fusion/fusion.toml without --home.
fuse: $(STAMP) $(CONFIG)
	@echo "Reading the sample in: notes, sessions and facts of a small project, into four memories …" >&2
	@$(BIN)/fusion ingest --home .fusion $(SAMPLE) >&2
	@echo "Asking all four: $(QUESTION)" >&2
	@$(BIN)/fusion fuse --home .fusion "$(QUESTION)"
	@printf '%s\n' "" "What next?" \
	    "  $(BIN)/fusion fuse 'why did we leave SQLite?'     ask the sample anything; -v says why each memory is in" \
	    "  $(BIN)/fusion open     see it in your browser: what an agent gets, and why something is not in it" \
	    "  $(BIN)/fusion remember We deploy on Tuesdays.     add a memory to it" \
	    "  cd && $(CURDIR)/$(BIN)/fusion init     your own notes and sessions, in a home of their own" >&2

serve: $(STAMP) $(CONFIG)
	@$(BIN)/fusion stop --home .fusion >/dev/null
	@exec $(BIN)/fusion serve --home .fusion

# The tests start some thousand processes. Where PYTHONDONTWRITEBYTECODE is set, each would compile all modules again.
compiled: $(STAMP)
	@$(BIN)/python -m compileall -q fusion adapters

test: compiled
	$(BIN)/python -m pytest -n 2 $(ARGS)

# Neo4j Community in its own process, from Maven Central: needs Java 17 and mvn. Downloaded once; the tests take 20 seconds.
NEO4J := .cache/neo4j/classpath

$(NEO4J): tests/bolt/pom.xml
	@mkdir -p $(@D)
	mvn --quiet --batch-mode --no-transfer-progress --file tests/bolt/pom.xml dependency:build-classpath \
	    -Dmdep.outputFile="$(CURDIR)/$@"

neo4j: $(NEO4J)

test-neo4j: compiled $(NEO4J)
	$(BIN)/python -m pytest -m neo4j $(or $(ARGS),tests/bolt tests/adapters tests/gateway/test_shared_servers.py)

# Cognee and its 170 packages, in their own environment: 1.4 GB, installed once for each version of the lock.
COGNEE := .cache/cognee/$(firstword $(shell cksum < tests/cognee/requirements.txt))

$(COGNEE)/installed: tests/cognee/requirements.txt | $(STAMP)
	@echo "Setting up $(COGNEE), once …" >&2
	@rm -rf .cache/cognee
	@$(PYTHON) -m venv --without-pip $(COGNEE)
	@index="$${UV_DEFAULT_INDEX:-$${UV_INDEX_URL:-$${PIP_INDEX_URL:-$$($(BIN)/pip config get global.index-url 2>/dev/null)}}}"; \
	env -u UV_INDEX_URL $${index:+UV_DEFAULT_INDEX="$$index"} $(BIN)/uv pip sync --quiet --compile-bytecode --require-hashes \
	    --python $(COGNEE)/bin/python tests/cognee/requirements.txt
	@touch $@

cognee: $(COGNEE)/installed

test-cognee: compiled $(COGNEE)/installed
	COGNEE_PYTHON="$(CURDIR)/$(COGNEE)/bin/python" $(BIN)/python -m pytest -m cognee $(or $(ARGS),tests/cognee)

# The frameworks of agents, in an environment for each of tests/frameworks/requirements*.txt: what does not resolve with the
# others has its own. The tests run in there, and their server in ours.
FRAMEWORKS := .cache/frameworks
FRAMEWORK_LOCKS := $(wildcard tests/frameworks/requirements*.txt)
FRAMEWORK_STAMP := $(FRAMEWORKS)/installed-$(firstword $(shell cat $(FRAMEWORK_LOCKS) | cksum))

$(FRAMEWORK_STAMP): $(FRAMEWORK_LOCKS) | $(STAMP)
	@echo "Setting up $(FRAMEWORKS), once …" >&2
	@rm -rf $(FRAMEWORKS)
	@index="$${UV_DEFAULT_INDEX:-$${UV_INDEX_URL:-$${PIP_INDEX_URL:-$$($(BIN)/pip config get global.index-url 2>/dev/null)}}}"; \
	for lock in $(FRAMEWORK_LOCKS); do \
	    environment=$(FRAMEWORKS)/$$(basename $$lock .txt); \
	    $(PYTHON) -m venv --without-pip $$environment && \
	    env -u UV_INDEX_URL $${index:+UV_DEFAULT_INDEX="$$index"} $(BIN)/uv pip sync --quiet --require-hashes \
	        --python $$environment/bin/python $$lock || exit 1; \
	done
	@touch $@

frameworks: $(FRAMEWORK_STAMP)

# In each environment the tests of the frameworks that are installed there are collected.
test-frameworks: compiled $(FRAMEWORK_STAMP)
	@for lock in $(FRAMEWORK_LOCKS); do \
	    FUSION_PYTHON="$(CURDIR)/$(BIN)/python" $(FRAMEWORKS)/$$(basename $$lock .txt)/bin/python -m pytest \
	        -n 2 --dist loadfile -c tests/frameworks/pytest.ini --rootdir tests/frameworks --confcutdir tests/frameworks \
	        $(or $(ARGS),tests/frameworks) || exit 1; \
	done

# What the lock of a folder names, installed elsewhere: $(call NPM_CI,where,folder,options). No script of a package runs.
define NPM_CI
@echo "Setting up $(1), once …" >&2
@rm -rf $(patsubst %/,%,$(dir $(1)))
@mkdir -p $(1)
@cp $(2)/package.json $(2)/package-lock.json $(1)
@npm ci --prefix $(1) --ignore-scripts $(3) --no-audit --no-fund --loglevel error
endef

# Agents' hosts from npm: 1.2 GB, installed once for each version of the lock. Only Claude Code's own script runs. opencode
# is its program for Linux alone, which needs no script.
HOSTS := .cache/hosts/$(firstword $(shell cksum < tests/hosts/package-lock.json))

$(HOSTS)/installed: | $(STAMP)
	$(call NPM_CI,$(HOSTS),tests/hosts)
	@node $(HOSTS)/node_modules/@anthropic-ai/claude-code/install.cjs
	@for built in $(HOSTS)/node_modules/opencode-linux-*/bin/opencode; do \
	    [ ! -x "$$built" ] || ln -sf "$(CURDIR)/$$built" $(HOSTS)/node_modules/.bin/opencode; done
	@touch $@

# OpenClaw with the Node that it needs, by a lock of its own: 0.8 GB. No script of a package runs.
OPENCLAW := .cache/openclaw/$(firstword $(shell cksum < tests/hosts/openclaw/package-lock.json))

$(OPENCLAW)/installed: | $(STAMP)
	$(call NPM_CI,$(OPENCLAW),tests/hosts/openclaw)
	@touch $@

# QMD, 0.2 GB: without its optional packages, which are programs that run models on graphics cards. It runs on the Node
# that comes with OpenClaw if the user's own is older than 22.
QMD := .cache/qmd/$(firstword $(shell cksum < tests/hosts/qmd/package-lock.json))

$(QMD)/installed: | $(STAMP)
	$(call NPM_CI,$(QMD),tests/hosts/qmd,--omit=optional)
	@touch $@

hosts: $(HOSTS)/installed $(OPENCLAW)/installed $(QMD)/installed

# As in the browser: the tests of a file share a gateway of OpenClaw, or what npm has installed.
test-hosts: compiled hosts
	HOSTS="$(CURDIR)/$(HOSTS)/node_modules/.bin" OPENCLAW="$(CURDIR)/$(OPENCLAW)/node_modules/.bin" \
	    QMD="$(CURDIR)/$(QMD)/node_modules/.bin" $(BIN)/python -m pytest -n 2 --dist loadfile -m hosts $(or $(ARGS),tests/hosts)

browser:
	@if command -v chromium >/dev/null; then exit 0; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends chromium >/dev/null; \
	else echo "No Chromium: install it, or run this as root where apt-get is." >&2; exit 1; fi

# Two processes: the tests of a file share a home and a Chromium, so they stay together.
test-browser: compiled browser
	$(BIN)/python -m pytest -n 2 --dist loadfile -m browser $(or $(ARGS),tests/doors/inspector)

# Debian starts a service for each of its servers: tests need the programs alone.
# `$(call VENV_OF,folder,file of requirements)`: an environment of its own for packages that would not fit into ours.
define VENV_OF
$(PYTHON) -m venv --without-pip $(1)
index="$${UV_DEFAULT_INDEX:-$${UV_INDEX_URL:-$${PIP_INDEX_URL:-$$($(BIN)/pip config get global.index-url 2>/dev/null)}}}"; \
env -u UV_INDEX_URL $${index:+UV_DEFAULT_INDEX="$$index"} $(BIN)/uv pip sync --quiet --require-hashes \
    --python $(1)/bin/python $(2)
endef

GRAFANA := .cache/grafana/$(firstword $(shell cksum < tests/observe/requirements.txt))

$(GRAFANA)/installed: tests/observe/requirements.txt | $(STAMP)
	@rm -rf .cache/grafana
	@$(call VENV_OF,$(GRAFANA),tests/observe/requirements.txt)
	@touch $@

observe: $(GRAFANA)/installed
	@if command -v prometheus >/dev/null; then exit 0; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
	        apt-get install -qq --no-install-recommends prometheus >/dev/null; \
	else echo "No Prometheus: install it, or run this as root where apt-get is." >&2; exit 1; fi

test-observe: compiled observe
	GRAFANA_PYTHON="$(CURDIR)/$(GRAFANA)/bin/python" $(BIN)/python -m pytest -m observe $(or $(ARGS),tests/observe)

SCHEMAS := .cache/schemas/$(firstword $(shell cksum < tests/cluster/requirements.txt))

$(SCHEMAS)/installed: tests/cluster/requirements.txt | $(STAMP)
	@rm -rf .cache/schemas
	@$(call VENV_OF,$(SCHEMAS),tests/cluster/requirements.txt)
	@touch $@

cluster: $(SCHEMAS)/installed
	@if command -v caddy >/dev/null; then exit 0; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
	        apt-get install -qq --no-install-recommends caddy >/dev/null; \
	else echo "No Caddy: install it, or run this as root where apt-get is." >&2; exit 1; fi

test-cluster: compiled cluster
	CLUSTER_PYTHON="$(CURDIR)/$(SCHEMAS)/bin/python" $(BIN)/python -m pytest -m cluster $(or $(ARGS),tests/cluster)

features: $(STAMP)
	$(BIN)/python -m tests.features

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Universal: for every platform and for Python 3.11 and later. The others agree with the first; that of the container has fewer extras.
lock: $(STAMP)
	$(BIN)/uv pip compile --quiet --generate-hashes --no-header --no-emit-index-url --universal --python-version 3.11 \
	    --extra all pyproject.toml --output-file requirements.txt
	$(BIN)/uv pip compile --quiet --generate-hashes --no-header --no-emit-index-url --universal --python-version 3.11 \
	    --group dev --constraints requirements.txt --output-file requirements-dev.txt
	$(BIN)/uv pip compile --quiet --generate-hashes --no-header --no-emit-index-url --universal --python-version 3.11 \
	    --extra mem0 --extra anthropic --extra neo4j --extra postgres --constraints requirements.txt pyproject.toml --output-file compose/requirements.txt

bench: $(STAMP)
	$(BIN)/python -m benchmarks $(BENCH)

wheel: $(STAMP)
	@rm -rf dist
	$(BIN)/hatchling build --target wheel

# Without Docker and without a registry of images. The script says what it needs.
image:
	@compose/build-image

clean:
	rm -rf $(VENV) dist build .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
