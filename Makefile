# Headrace: what a person types. `make help` lists it.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := bin/headrace
# Where pip and Go may be slow, the two run side by side: see `setup`.

export HEADRACE_PYTHON := $(CURDIR)/$(VENV)/bin/python
export HEADRACE_JAX_CACHE ?= $(CURDIR)/.cache/jax

.PHONY: test-browser chaos chaos-short help setup build venv dev-venv demo test test-go test-python test-whole compose-test lint bench docs clean cross fuzz

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

setup: ## build the binary and install the Python side, at once
	@$(MAKE) --no-print-directory -j2 build venv

build: ## build bin/headrace
	@mkdir -p bin && go build -trimpath -o $(BIN) ./cmd/headrace

venv: $(VENV)/.installed ## install the Python side into .venv

$(VENV)/.installed: trainer-bridge/python/pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: no $(PYTHON): install Python 3.11 or newer, or say make PYTHON=..."; exit 1; }
	@echo "installing the Python side into $(VENV) (JAX is some 600 MB) ..."
	@$(PYTHON) -m venv $(VENV) && $(VENV)/bin/pip install -q --disable-pip-version-check -e 'trainer-bridge/python[jax]'
	@touch $@

dev-venv: $(VENV)/.dev ## the same with the test tools

$(VENV)/.dev: $(VENV)/.installed
	@$(VENV)/bin/pip install -q --disable-pip-version-check -e 'trainer-bridge/python[jax,dev]'
	@touch $@

demo: export HEADRACE_BEGAN ?= $(shell date +%s)
demo: ## the main job: a JAX process learns FrozenLake from rollouts over the bus
	@HEADRACE_BEGAN=$(HEADRACE_BEGAN) $(MAKE) --no-print-directory setup
	@$(BIN) up recipes/frozenlake --summary out/demo $(ARGS)

test: dev-venv build test-go test-python test-whole ## everything that must pass

test-go: ## Go, with the race detector
	go vet ./...
	go test -race -timeout 8m ./...

test-python: dev-venv ## the Python package
	$(VENV)/bin/python -m pytest -q trainer-bridge/python

test-whole: dev-venv build ## start everything, kill it, resume it, compare every batch
	go test -count=1 -timeout 8m -tags whole ./internal/wholetest/ ./internal/flowtest/

test-browser: ## walk every page of the UI in a Chromium (HEADRACE_CHROMIUM, or the one on PATH)
	go test -count=1 -timeout 5m -tags browser ./internal/uitest/

PROFILE ?= single
compose-test: build ## the containers: learn, scale, kill, stop, resume (PROFILE=cluster: three NATS servers)
	scripts/compose-test $(PROFILE)

lint: dev-venv ## golangci-lint, ruff, pyright
	scripts/lint

chaos: ## break a fleet of processes in every way, N times each: make chaos N=20 FAULTS=kill-* ARGS=--resume
	@scripts/chaos/build out/chaos-bin --clock
	out/chaos-bin/chaos --binary out/chaos-bin/headrace --clock out/chaos-bin/clock --docs docs/reliability.md --n $(or $(N),20) --faults '$(FAULTS)' $(ARGS)

chaos-short: ## one run of some faults, in minutes
	@scripts/chaos/build out/chaos-bin
	out/chaos-bin/chaos --binary out/chaos-bin/headrace --out out/chaos-short.json --short $(ARGS)

bench: dev-venv build ## every performance figure, into out/bench.json
	scripts/bench/run

fuzz: ## every fuzz target for a while: make fuzz T=2m
	go run ./scripts/fuzz -t $(or $(T),1m)

docs: ## write the configuration reference anew
	go run ./scripts/configdoc > docs/configuration.md

cross: ## build for the other systems
	@for t in linux/arm64 darwin/arm64 darwin/amd64; do echo $$t; GOOS=$${t%/*} GOARCH=$${t#*/} go build -o /dev/null ./cmd/headrace || exit 1; done

clean: ## remove what was built, not your runs
	rm -rf bin out .cache
