# Kedis: build, run and test. `make help` lists the targets.

SHELL := /bin/bash
.DEFAULT_GOAL := help

GO          ?= go
STATICCHECK := $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.7.0
GOLANGCI    := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.5.0
INSTALL     := scripts/install-dependencies.sh
# What is in npm's packages, each with its lock file; and the Go modules.
NODE_TESTS  := redis-tests/clients/ioredis redis-tests/programs/node
GO_MODULES  := . redis-tests/programs/golang

# The binary that redis-tests drive; built once here instead of by every test package.
export KEDIS_BINARY ?= $(CURDIR)/bin/kedis
# The oracle, where PATH has none of the right version (see scripts/install-dependencies.sh).
ifneq ($(wildcard .cache/oracle/redis-server),)
export KEDIS_ORACLE ?= $(CURDIR)/.cache/oracle/redis-server
export PATH := $(CURDIR)/.cache/oracle:$(PATH)
endif

include scripts/release.mk

# What the long tests take: make crash ROUNDS=300, make fuzz-differential COMMANDS=1000000 SEED=7,
# make chaos MINUTES=10 SEED=7, make attack SCALE=20
ROUNDS   ?= 100
PROGRAMS ?= 20000
COMMANDS ?= 1000000
SEED     ?= 0
MINUTES  ?= 10
SCALE    ?= 20
FAILOVERS ?= 30
KEYS     ?= 10000000
# make bench BENCH='-scale 0.3 -rounds 3 -only GET', make bench BENCH='-tls -depths 16,64 -only "^(SET|GET)$$"'
BENCH    ?=
# make bench-limits PARTS=cold MEGABYTES=2048 LENGTH=60
PARTS     ?= cold,collections,tail,memory,recovery
MEGABYTES ?= 512
LENGTH    ?= 15
FUZZTIME ?= 10s
# make redis-suite UNITS='unit/type/list unit/tracking'
UNITS    ?=
# make bench-pairs A='bin/kedis-before serve' B='bin/kedis serve' BENCH='-pairs 20 -shapes shared'
A        ?= bin/kedis serve
B        ?= bin/kedis serve --reactors 1
# make bench-waiting WAITING='-clients 18000 -only handover'
WAITING  ?=
# make bench-strings STRINGS='-megabytes 64 -only SETBIT -whole=false'
STRINGS  ?=
# make waiters WAITERS=8000 MOMENTS=100
WAITERS  ?= 4000
MOMENTS  ?= 300
MOVED    ?= 1000000
RANKED   ?= 1000000
ENTRIES  ?= 10000000
PENDING  ?= 1000000
# Packages whose goroutines share data; the race detector watches them in CI, of storage only the tests of many goroutines, and a
# server under concurrent load. `make race` takes all.
RACE_PACKAGES := ./lock ./ttl ./binlog ./storage/generation ./storage/cache ./replication ./server ./server/execute ./server/command ./server/observe
MOVEDMB  ?= 5000

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

# A second make, so that it sees a RocksDB that was built just now.
.PHONY: run
run: dependencies ## install what is missing, build, serve on port 6379
	@$(MAKE) --no-print-directory build
	bin/kedis serve

.PHONY: build
build: ## build bin/kedis
	@$(INSTALL) check
	@mkdir -p bin
	$(GO) build -o bin/kedis .

.PHONY: dependencies
dependencies: ## install what building needs
	@$(INSTALL) build

.PHONY: test-dependencies
test-dependencies: # install what the tests need
	@$(INSTALL) build test
	@$(MAKE) --no-print-directory $(NODE_TESTS:%=%/node_modules/.package-lock.json)

%/node_modules/.package-lock.json: %/package.json %/package-lock.json
	cd $* && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

# A second make, as for run, so that it sees an oracle that was installed just now.
.PHONY: test
test: test-dependencies ## install what is missing, lint, all short tests
	@$(MAKE) --no-print-directory lint go-test

# With the compiler's profile (default.pgo) all of it would be compiled once more, for minutes.
.PHONY: go-test
go-test:
	@$(INSTALL) check
	@mkdir -p bin
	$(GO) build -pgo=off -o bin/kedis-for-tests .
	@rm -f bin/skipped
	KEDIS_SKIPPED=$(CURDIR)/bin/skipped KEDIS_BINARY=$(CURDIR)/bin/kedis-for-tests $(GO) test -count=1 -timeout 20m ./... || failed=1; \
	if [ -s bin/skipped ]; then echo "skipped for what this machine lacks:"; cat bin/skipped; fi; exit $${failed:-0}

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, golangci-lint (.golangci.yml)
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	@set -e; for module in $(GO_MODULES); do (set -x; cd $$module; $(GO) vet ./...; $(STATICCHECK) ./...; $(GOLANGCI) run ./...); done

.PHONY: race
race: test-dependencies ## all tests under the race detector
	@$(MAKE) --no-print-directory go-race

.PHONY: go-race
go-race:
	$(GO) build -race -pgo=off -o bin/kedis-race .
	KEDIS_BINARY=$(CURDIR)/bin/kedis-race $(GO) test -race -count=1 -timeout 60m ./...

.PHONY: race-short
race-short: ## race detector on packages that share data
	$(GO) test -race -short -count=1 -timeout 15m $(RACE_PACKAGES)
	$(GO) test -race -short -count=1 -timeout 15m -run 'Concurrent|Staged|Flush|View|Commit|Checkpoint' ./storage ./storage/engine
	$(GO) build -race -pgo=off -o bin/kedis-race .
	KEDIS_BINARY=$(CURDIR)/bin/kedis-race $(GO) test -race -short -count=1 -timeout 15m ./redis-tests/concurrency

.PHONY: fuzz
fuzz: ## every Go fuzz target for FUZZTIME
	scripts/fuzz.sh $(FUZZTIME)

.PHONY: fuzz-differential
fuzz-differential: build ## COMMANDS random commands beside redis-server
	KEDIS_SEED=random $(GO) test ./redis-tests/differential -count=1 -timeout 0 -v -run '^(TestDifferential|TestWaitingClients)$$' -args -commands=$(COMMANDS) -seed=$(SEED)

.PHONY: fuzz-access
fuzz-access: build ## random users and their clients beside redis-server, SCALE times the ordinary run
	KEDIS_SEED=random $(GO) test ./redis-tests/access -count=1 -timeout 0 -v -run '^(TestEveryCommand|TestRules|TestClientsOfUsers)$$' -args -scale=$(SCALE)

.PHONY: serial
serial: build ## PROGRAMS random Lua programs at the same time, repeated in their order on redis-server
	KEDIS_SEED=random $(GO) test ./redis-tests/serial -count=1 -timeout 0 -v -args -programs=$(PROGRAMS)

.PHONY: waiters
waiters: build ## WAITERS end their waits in every way at once, MOMENTS times
	KEDIS_SEED=random $(GO) test ./redis-tests/concurrency -count=1 -timeout 0 -v -run '^TestThousandsOfWaitersEndAtOnce$$' -args -waiters=$(WAITERS) -moments=$(MOMENTS)

.PHONY: crash
crash: build ## ROUNDS of kill -9 under load
	KEDIS_SEED=random $(GO) test ./redis-tests/crash -count=1 -timeout 0 -v -args -rounds=$(ROUNDS) -seed=$(SEED)

.PHONY: chaos
chaos: build ## MINUTES of cut links, kills and role changes
	KEDIS_SEED=random $(GO) test ./redis-tests/chaos -count=1 -timeout 0 -v -args -minutes=$(MINUTES) -seed=$(SEED)

.PHONY: attack
attack: build ## an adversary's run, SCALE times the ordinary one (needs root)
	KEDIS_SEED=random $(GO) test ./redis-tests/attack -count=1 -timeout 0 -v -args -scale=$(SCALE)

.PHONY: failovers
failovers: build ## FAILOVERS of each kind under load, and by Sentinel
	KEDIS_SEED=random $(GO) test ./redis-tests/failover -count=1 -timeout 0 -v -args -rounds=$(FAILOVERS)
	KEDIS_SEED=random $(GO) test ./redis-tests/replication -count=1 -timeout 0 -v -run '^TestSentinelFailoversOfIdleData$$' -args -sentinel-failovers=$(FAILOVERS)

.PHONY: redis-suite
redis-suite: build ## Redis 8.0's own tests, those for any server, on Kedis (UNITS)
	scripts/redis-suite.sh $(UNITS)

.PHONY: scripts-rewrite
scripts-rewrite: ## take the expected replies from redis-server
	$(GO) test ./redis-tests/scripts -count=1 -run '^TestOracle$$' -args -rewrite

.PHONY: bench
bench: build ## redis-benchmark on Kedis and redis-server in turns
	$(GO) run ./redis-tests/bench $(BENCH)

.PHONY: profile
profile: build ## make default.pgo anew, the profile that build reads
	scripts/profile.sh

.PHONY: bench-pairs
bench-pairs: build ## builds or settings A and B in alternating pairs
	$(GO) run ./redis-tests/bench/pairs -a '$(A)' -b '$(B)' $(BENCH)

.PHONY: bench-waiting
bench-waiting: build ## clients that wait, deadlines and messages to many (WAITING)
	$(GO) run ./redis-tests/bench/waiting $(WAITING)

.PHONY: bench-synchronous
bench-synchronous: build ## what it costs that replies wait for a replica (SYNCHRONOUS)
	$(GO) run ./redis-tests/bench/synchronous $(SYNCHRONOUS)

.PHONY: bench-migration
bench-migration: build ## port, import and export of MOVED keys
	$(GO) run ./redis-tests/bench/migration -keys $(MOVED)

.PHONY: import-memory
import-memory: build ## import and export MOVEDMB megabytes within 300 MB
	$(GO) test ./redis-tests/migrate -count=1 -timeout 0 -v -run '^TestMemory$$' -args -megabytes=$(MOVEDMB)

.PHONY: port-memory
port-memory: build ## port MOVEDMB megabytes within 100 MB
	$(GO) test ./redis-tests/port -count=1 -timeout 0 -v -run '^TestMemory$$' -args -megabytes=$(MOVEDMB)

.PHONY: bench-limits
bench-limits: build ## PARTS: cold data, collections, tails, memory, recovery (needs root)
	$(GO) run ./redis-tests/bench/limits -only $(PARTS) -megabytes $(MEGABYTES) -seconds $(LENGTH)

.PHONY: bench-ranks
bench-ranks: build ## ranks in a sorted set of RANKED members
	$(GO) run ./redis-tests/bench/ranks -members $(RANKED)

.PHONY: bench-strings
bench-strings: build ## parts of a long string, and all of it (STRINGS)
	$(GO) run ./redis-tests/bench/strings $(STRINGS)

.PHONY: bench-streams
bench-streams: build ## a stream of ENTRIES, a group with PENDING ones
	$(GO) run ./redis-tests/bench/streams -entries $(ENTRIES) -pending $(PENDING)

.PHONY: bench-replication
bench-replication: build ## full synchronization of KEYS keys, and the lag
	$(GO) run ./redis-tests/bench/replication -keys $(KEYS)

.PHONY: clean
clean: ## remove what was built here; ./data stays
	rm -rf bin .cache bench-results $(NODE_TESTS:%=%/node_modules)
