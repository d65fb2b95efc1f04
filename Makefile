# Sealstone. `make` prints the targets; `make test` is what CI runs.
#
# Variables: GO, PYTHON, FUZZTIME (per fuzz function), TESTTIMEOUT (per package),
# SEALSTONE_FULL=1 (the long versions of the tests), RELEASE=1 (no paths of this
# machine in what is built; compiles everything once more).
SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO       ?= go
PYTHON   ?= python3
FUZZTIME ?= 3s
# Only there to end a hang: a healthy package is far below it.
TESTTIMEOUT ?= 20m
export GOTOOLCHAIN ?= local
# Position-independent code throughout: the C library needs it, and so the
# binary, the tests and the library share one set of compiled packages.
export GOFLAGS := -buildmode=pie $(if $(filter 1,$(RELEASE)),-trimpath) $(GOFLAGS)

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -X main.version=$(VERSION)

# Packages whose tests start goroutines: these run under the race detector.
RACE := ./engine/... ./wal/... ./tiers/... ./gpu/... ./internal/aligned/... ./internal/memguard/... ./internal/vfs/... \
	./tools/client/... ./tools/internal/server/... ./tools/internal/load/... ./tools/libsealstone/internal/...

# The stages of `make test` in order, each with its budget in minutes on two
# cores, the first build of everything included. docs/testing.md has the same
# table.
STAGES := lint:2 build:1 unit:6 race:8 fuzz:4 canary:3 fsmatrix:2 cross:2 demo:1 pytest:2

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/sealstone
	$(GO) build -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/sealstone ./tools/sealstone

.PHONY: lib
lib: bin/libsealstone.so ## build bin/libsealstone.so, the C ABI, with sealstone.h and sealstone.pc

# Only the functions of the header are exported; the library stays loaded, as
# the threads of the Go runtime in it do.
LIBFLAGS := -Wl,--version-script=tools/libsealstone/sealstone.map \
	-Wl,-soname,libsealstone.so.1 -Wl,-z,nodelete -Wl,-z,relro

# The linker alone is told c-shared. Said to the go command, it compiles the C
# code of all dependencies each time, in search of headers to install: a minute.
# What it compiles for pie is the same code.
.PHONY: bin/libsealstone.so
bin/libsealstone.so:
	CGO_ENABLED=1 $(GO) build -buildmode=pie -buildvcs=false -o bin/libsealstone.so.1 \
		-ldflags "-buildmode=c-shared -w $(LDFLAGS) -extldflags '$(LIBFLAGS)'" ./tools/libsealstone
	ln -sf libsealstone.so.1 bin/libsealstone.so
	cp tools/libsealstone/sealstone.h bin/sealstone.h
	sed 's/@VERSION@/$(VERSION)/' tools/libsealstone/sealstone.pc.in >bin/sealstone.pc

.PHONY: ctest
ctest: lib ## C programs against the library, under ASan and valgrind (part of unit)
	$(GO) test -count=1 -timeout $(TESTTIMEOUT) ./tools/libsealstone/ctest

.PHONY: demo
demo: build ## build, then show every promise held on a temporary store
	bin/sealstone demo

.PHONY: test
test: ## run every stage that CI runs
	@tools/ci/stages.sh '$(MAKE)' $(STAGES)

.PHONY: test-quick
test-quick: ## vet, own rules and unit tests, no race detector and no fuzzing
	$(GO) vet ./...
	$(GO) test -short -p 2 -timeout 5m ./...

.PHONY: full
full: export SEALSTONE_FULL = 1
full: ## run the long versions: more seeds, every crash point, longer fuzzing
	@tools/ci/stages.sh '$(MAKE) FUZZTIME=2m TESTTIMEOUT=120m' lint:3 build:2 unit:120 race:240 fuzz:60 canary:10 fsmatrix:10 cross:3 demo:1

.PHONY: lint
lint: format vet staticcheck layers ## gofmt, vet, staticcheck and the project's own rules

.PHONY: format
format: ## fail if gofmt would change a file
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi

.PHONY: vet
vet: ## go vet
	$(GO) vet ./...
	$(GO) vet -tags canary ./engine/... ./tiers/... ./gpu/...

.PHONY: staticcheck
staticcheck: ## staticcheck, at the version that tools/lint/go.mod pins
	$(GO) tool -modfile=tools/lint/go.mod staticcheck ./...

.PHONY: layers
layers: ## the project's own rules: layers, banned calls, docs, lengths
	$(GO) test -timeout 2m ./internal/lint

.PHONY: unit
unit: bench-module redis-module ## all tests
	$(GO) test -p 2 -timeout $(TESTTIMEOUT) ./...

# With -mod=mod a requirement that the main module raised is raised there too.
.PHONY: bench-module
bench-module: ## vet and test tools/bench, which is a module of its own
	$(GO) -C tools/bench vet -mod=mod ./...
	$(GO) -C tools/bench test -mod=mod -timeout $(TESTTIMEOUT) ./...

.PHONY: redis-module
redis-module: ## vet and test tools/redistest: the server under a Redis client of others
	$(GO) -C tools/redistest vet -mod=mod ./...
	$(GO) -C tools/redistest test -mod=mod -timeout $(TESTTIMEOUT) ./...

.PHONY: race
race: ## tests of the concurrent packages under the race detector, -short
	@GO='$(GO)' tools/ci/race.sh $(TESTTIMEOUT) ./engine $(RACE)

.PHONY: fuzz
fuzz: ## run every fuzz function for FUZZTIME (3s)
	@GO='$(GO)' tools/ci/fuzz.sh $(FUZZTIME)

.PHONY: canary
canary: ## break laws on purpose: the tests that guard them must fail
	@GO='$(GO)' tools/ci/canary.sh ./engine law1 law2 law2GPU law3 law4 law5 law6
	@GO='$(GO)' tools/ci/canary.sh ./engine/index law5
	@GO='$(GO)' tools/ci/canary.sh ./tiers/disk law6
	@GO='$(GO)' tools/ci/canary.sh ./gpu law2
	@GO='$(GO)' tools/ci/canary.sh ./gpu/canary law6

.PHONY: faults
faults: ## the whole fault matrix; ends with one line of JSON
	@GO='$(GO)' tools/ci/faults.sh full

.PHONY: faults-quick
faults-quick: ## the same with few seeds and kills, within 5 minutes
	@GO='$(GO)' tools/ci/faults.sh quick

.PHONY: fsmatrix
fsmatrix: ## the store on real file systems, in containers and on FUSE that lies (root)
	cd tools/fsmatrix && $(GO) vet . && $(GO) test -count=1 -timeout $(TESTTIMEOUT) .

.PHONY: python
python: lib ## build the wheel of tools/python and install it in bin/venv
	@PYTHON='$(PYTHON)' tools/ci/python.sh '$(VERSION)'

# The wheel has to be whole and the types right before a test means anything.
.PHONY: pytest
pytest: python build ## lint, type check and test the Python package
	bin/venv/bin/ruff check --no-cache tools/python
	bin/venv/bin/ruff format --no-cache --check --quiet tools/python
	cd tools/python && $(CURDIR)/bin/venv/bin/mypy --cache-dir=$(CURDIR)/bin/mypy
	bin/venv/bin/pytest -q tools/python

.PHONY: cross
cross: ## build for other systems
	@GO='$(GO)' tools/ci/cross.sh

.PHONY: golden
golden: ## rewrite golden files from what the code does now; look at the diff
	@GO='$(GO)' tools/ci/golden.sh

.PHONY: bench
bench: ## Go benchmarks of all packages
	$(GO) test -run '^$$' -bench . -benchmem -timeout 30m ./...

.PHONY: clean
clean: ## remove what was built here
	rm -rf bin
