# What a person or CI does with this repository. `make help` lists it.
SHELL := /bin/bash
GO ?= go
# Everything but the race detector is compiled without cgo, as the programs are: once.
export CGO_ENABLED := 0
# The packages of the two modules that the programs are made of: this one, and events, which brokers import.
PACKAGES := github.com/hap-worker/hap-worker/...
LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
SBOM := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
VULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
VULNDB ?= $(or $(GOVULNDB),https://vuln.go.dev)
CHECKED ?= ./cmd/...
FUZZTIME ?= 100000x
BENCHTIME ?= 1s
SEED ?=
DURATION ?= 2m
EVERY ?=
DIR ?=
BIN ?= bin
N ?= 10000
BASE ?=
ROUNDS ?= 10
EVENTS ?= 20000

# Modules whose programs the development stack builds. They are checked as they are
# built there, so that Kubernetes and Gardener are compiled once.
SERVERS := integration/kubeapi integration/gardenerapi
AS_BUILT := GOFLAGS="$(GOFLAGS) -trimpath"

.DEFAULT_GOAL := help
.NOTPARALLEL:

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

.PHONY: build
build: ## build hap-worker and hapctl into bin/, or into BIN
	$(GO) build -trimpath -ldflags='-s -w' -o $(BIN)/ ./cmd/hap-worker ./cmd/hapctl

.PHONY: demo
demo: ## five short stories of what hap-worker does, on its own parts; stays on a terminal until Ctrl-C
	@# Not go run, which fails if the program is interrupted.
	@$(GO) build -C integration -o ../bin/demo ./demo
	@bin/demo

# GOTEST runs tests; in .ci it is .ci/gotest, which keeps a log.
GOTEST ?= $(GO) test

# A test of integration says in its name what it needs: a built kube-apiserver or gardener-apiserver
# (TestReal…), a browser (TestPage), minutes (TestFaults, TestSoak). With HAP_WITHOUT_SERVERS other tests
# cannot build a server. TestTimed… measure time, and TestTool… check what a toolchain makes: their
# results change with the machine or a version, too, not only with the product.
MEASURED := ^Test(Timed|Tool)
SLOW := ^Test(Real|Page$$|Faults$$|Soak$$|Timed|Tool)
QUICK = $$($(GO) list ./... | grep -v '/containers$$')

# Packages whose tests wait for real time: one after the other, after everything is compiled.
WAITING = ./cmd/hapctl/... ./counters/... ./gardener/... ./ledger/... ./worker/filewatch ./worker/source
OTHERS = $$($(GO) list $(PACKAGES) | grep -vxF "$$($(GO) list $(WAITING))")

.PHONY: test test-compile test-waiting test-others test-integration test-alerts
test: test-compile test-waiting test-others test-integration test-alerts ## what needs neither a container engine nor a built kube-apiserver, with real NATS and Redis: minutes
test-compile: # a package that does not compile fails below, where its tests run
	-@$(GO) test -run '^$$' -exec true $(PACKAGES) >/dev/null
	-@cd integration && $(GO) test -run '^$$' -exec true $(QUICK) >/dev/null
test-waiting:
	$(GOTEST) -p 1 -skip '$(MEASURED)' $(WAITING)
test-others:
	$(GOTEST) -skip '$(MEASURED)' $(OTHERS)
test-integration:
	cd integration && HAP_WITHOUT_SERVERS=1 $(GOTEST) -p 1 -parallel 3 -timeout 30m -skip '$(SLOW)' $(QUICK)
test-alerts:
	cd integration/promrules && $(GOTEST) ./...

.PHONY: integration
integration: ## the tests with everything around of one part, OF=life, faults, security, kube, hapctl, page or network; SLOW=none runs the slow ones too
	@grep -q '^$(OF) ' integration/parts.txt || { echo "OF=$(OF) is no part; there are:" $$(cut -d' ' -f1 integration/parts.txt); exit 2; }
	cd integration && $(GOTEST) -parallel 3 -timeout 30m -run "$$(sed -n 's/^$(OF) //p' parts.txt)" -skip '$(SLOW)' .

.PHONY: test-all
test-all: ## test, and kube-apiserver, gardener-apiserver, the page in a browser, timed tests, containers, the fault schedule from four seeds
	.ci/all

.PHONY: release-check
release-check: ## all that a release demands of its commit: test-all, race, histories, simulated histories, fuzz, soak, all of lint, known weaknesses, demo
	.ci/all release

.PHONY: real
real: ## the tests on a built kube-apiserver and gardener-apiserver, and of the page in a browser
	cd integration && $(GOTEST) -timeout 30m -run '$(SLOW)' -skip '^Test(Faults|Soak|Timed|Tool)' $(QUICK)

.PHONY: timed
timed: ## the tests that measure: how long something takes, or what a toolchain makes of the sources
	$(GOTEST) -p 1 -run '$(MEASURED)' $(PACKAGES)
	cd integration && $(GOTEST) -p 1 -parallel 1 -timeout 30m -run '$(MEASURED)' $(QUICK)

.PHONY: servers
servers: ## the tests of the programs that serve Kubernetes and Gardener
	@set -e; for module in $(SERVERS); do (cd $$module && $(AS_BUILT) $(GOTEST) ./...); done

.PHONY: containers
containers: ## the tests that run everything in containers; HAP_IMAGES=upstream takes NATS and Redis from a registry
	cd integration && $(GOTEST) -count 1 -timeout 40m -parallel 3 ./containers

.PHONY: race
race: ## the tests with the race detector, on kube-apiserver, without timed ones, fault schedule, soak, and what it cannot see: worker processes, containers, and the model, which is one goroutine
	CGO_ENABLED=1 HAP_SIMULATION=50 $(GOTEST) -race -skip '$(MEASURED)' $(PACKAGES)
	cd integration && HAP_TEST_GARDENER=crd CGO_ENABLED=1 $(GOTEST) -race -p 1 -timeout 60m -parallel 3 -skip '^Test(Faults|Soak|Timed|Tool)' $$($(GO) list ./... | grep -v '/model$$\|/containers$$')

.PHONY: race-short
race-short: ## the packages of the event's path with the race detector, without random histories and timed tests
	CGO_ENABLED=1 HAP_SIMULATION=50 $(GOTEST) -race -skip '$(MEASURED)' $$($(GO) list ./worker/... ./counters/... ./ledger/... ./engine/... github.com/hap-worker/hap-worker/events/... | grep -v '/histories$$')

.PHONY: histories
histories: ## N random histories of the account protocol, Redis against the model; SEED of the first; prints what they consisted of
	HAP_HISTORIES=$(N) HAP_HISTORIES_SEED=$(SEED) $(GO) test -count 1 -timeout 1h -v -run '^TestHistories$$' ./counters/counterstest/histories

.PHONY: simulate
simulate: ## N histories of the real code in a world that fails at will; SEED of the first, or one drawn; Ctrl-C says how to go on; what fails goes to DIR
	@# Not go test, which does not wait for an interrupted test to end.
	@$(GO) test -c -o $(BIN)/simulation ./worker/simulation
	@cd worker/simulation && GODEBUG=adaptivestackstart=1 HAP_SIMULATION=$(N) HAP_SIMULATION_SEED=$(or $(SEED),$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')) \
	  HAP_SIMULATION_DIR=$(abspath $(or $(DIR),dist/simulation)) exec $(abspath $(BIN))/simulation -test.timeout 0 -test.v -test.run '^TestHistories$$'

.PHONY: faults
faults: ## the fault schedule for DURATION, from SEED, with a step of the broker EVERY 70ms; prints figures, keeps logs in DIR
	HAP_FAULTS_SEED=$(SEED) HAP_FAULTS_DURATION=$(DURATION) HAP_FAULTS_EVERY=$(EVERY) HAP_FAULTS_DIR=$(if $(DIR),$(abspath $(DIR))) \
	  $(GO) test -C integration -timeout 0 -count 1 -run '^TestFaults$$' -v .

.PHONY: soak
soak: ## a steady load for DURATION with a fault now and then: memory, goroutines, open files and Redis keys must not grow; logs and plot to DIR (dist/soak)
	HAP_SOAK_SEED=$(SEED) HAP_SOAK_DURATION=$(DURATION) HAP_SOAK_EVERY=$(EVERY) HAP_SOAK_DIR=$(abspath $(or $(DIR),dist/soak)) \
	  $(GO) test -C integration -timeout 0 -count 1 -run '^TestSoak$$' -v .

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME each: a number of inputs, as 100000x
	@# By number, not by time: a time that ends while a finding is minimized fails with "context deadline exceeded".
	@# Go fuzzes only packages of the module in which it runs; of integration, lightapi alone has targets.
	@set -e; for of in '. ./...' 'events ./...' 'integration ./lightapi'; do module=$${of% *}; for pkg in $$($(GO) list -C $$module $${of#* }); do \
	  for target in $$($(GO) test -C $$module -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "$$pkg $$target"; $(GO) test -C $$module -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 200x $$pkg; \
	  done; done; done

.PHONY: bench
bench: ## benchmarks with allocations: matcher, codec, assign script, whole path
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) $(PACKAGES)
	$(GO) test -C integration -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

.PHONY: bench-system
bench-system: ## the whole beside a bare loop and bare patches, alternating; takes some ten minutes; figures to dist/; SYSTEM has other flags
	@mkdir -p dist
	$(GO) run -C integration ./bench/system $(SYSTEM) --json $(CURDIR)/dist/bench-system.json

.PHONY: bench-guard
bench-guard: ## the steady state of this checkout beside that of the commit BASE, alternating in ROUNDS; fails if it is more than 3 % slower; takes some three minutes; figures to dist/
	@test -n '$(BASE)' || { echo 'make bench-guard needs BASE=COMMIT'; exit 2; }
	@mkdir -p dist
	$(GO) run -C integration ./bench/system --base '$(BASE)' --rounds $(ROUNDS) --events $(EVENTS) --json $(CURDIR)/dist/bench-guard.json

.PHONY: bench-growth
bench-growth: ## CPU per decision as bindings, runtimes, processes and pools grow; takes some ten minutes; figures to dist/, plot to docs/images
	@mkdir -p dist
	$(GO) run -C integration ./bench/system --growth --rounds 3 --events 30000 --json $(CURDIR)/dist/bench-growth.json
	cp dist/bench-growth.svg docs/images/growth.svg

.PHONY: bench-fairness
bench-fairness: ## what quiet tenants have beside a flood and beside what fails, each beside its unloaded run; takes some seventeen minutes; figures to dist/, plot to docs/images
	@mkdir -p dist
	$(GO) run -C integration ./bench/system --fairness --rounds 5 --json $(CURDIR)/dist/bench-fairness.json
	cp dist/bench-fairness.svg docs/images/fairness.svg

.PHONY: bench-memory
bench-memory: ## what a worker keeps resident at 10,000 accounts and 100,000 runtimes, and uses while it is idle; takes some thirty minutes; MEMORY has other flags
	$(GO) run -C integration ./bench/memory $(MEMORY)

.PHONY: bench-waiting
bench-waiting: ## what 100, 4,000 and 100,000 requests that wait cost; takes some twelve minutes; figures to dist/, plot to docs/images
	@mkdir -p dist
	$(GO) run -C integration ./bench/waiting --json $(CURDIR)/dist/bench-waiting.json --plot $(CURDIR)/docs/images/waiting.svg

.PHONY: sbom
sbom: build ## bin/*.cdx.json: what hap-worker and hapctl are linked from, as CycloneDX
	@set -e; for program in hap-worker hapctl; do $(GO) run $(SBOM) bin -json -std -noserial -notimestamp -output bin/$$program.cdx.json bin/$$program; done

.PHONY: release
release: ## a release in DIR (dist/release): programs for PLATFORMS, bills, checksums, provenance, signatures with KEY; with IMAGES=1 the images; docs/release.md has the tags, events/vX.Y.Z among them
	SBOM=$(SBOM) GO=$(GO) deploy/release.sh $(or $(DIR),dist/release)

.PHONY: vulncheck
vulncheck: ## known weaknesses in what the programs call; VULNDB or GOVULNDB is a mirror of the database, also as file://; says NOT RUN and fails where it is out of reach
	@# govulncheck itself does not heed GOVULNDB.
	@if curl -fsSL -m 20 -o /dev/null '$(VULNDB)/index/db.json'; then $(GO) run $(VULNCHECK) -db '$(VULNDB)' $(CHECKED); \
	  else echo "NOT RUN: the search for known weaknesses. The database cannot be reached: vuln.go.dev, or the mirror that VULNDB or GOVULNDB names."; exit 1; fi

# golangci DIRECTORIES ENVIRONMENT: the linter over modules.
golangci = set -e; bin=$$(mktemp -d); trap 'rm -rf "$$bin"' EXIT; GOBIN=$$bin $(GO) install $(LINT); \
	  for module in $(1); do echo "$$module: golangci-lint"; (cd $$module && $(2) "$$bin/golangci-lint" run ./...); done

.PHONY: lint
lint: ## gofmt and golangci-lint, which vets too; counts phrases that are read twice
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not gofmt clean:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) test -count=1 -v -run '^TestEnglish$$' ./cmd
	@$(call golangci,. events integration integration/promrules)

.PHONY: lint-servers
lint-servers: ## golangci-lint over the modules of kube-apiserver and gardener-apiserver
	@$(call golangci,$(SERVERS),$(AS_BUILT))

.PHONY: docs
docs: ## write anew what is generated: docs/cli from hapctl's help texts, the tables of docs/messages.md from the code's, that of docs/architecture.md from a covered run, the chart's schema, README, alerts and dashboard
	UPDATE_DOCS=1 $(GO) test -count=1 -p 1 -run 'TestReference|TestMessagesPage|TestToolPath' ./cmd/hapctl/... ./ledger/wire ./worker
	UPDATE_DOCS=1 $(GO) test -C integration -count=1 -run '^TestGenerated$$' ./chart

.PHONY: stack
stack: ## run the development stack until Ctrl-C
	$(GO) run -C integration ./devstack

.PHONY: images
images: ## build the container images that docker-compose.yaml uses, from scratch
	deploy/images.sh
