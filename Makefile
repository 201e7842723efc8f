# Everything needs Go, git and make only. `make` lists the targets.

.DEFAULT_GOAL := help

# Nobody debugs what is built here, and compilers are done a tenth sooner without DWARF.
export GOFLAGS := $(GOFLAGS) -gcflags=all=-dwarf=false

.PHONY: help build control-plane demo test test-live oldest crash explore mutants judge bench lint generate clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build sluice, watcher, executor and analyzer into bin/
	@mkdir -p bin
	CGO_ENABLED=0 go build -o bin/ ./cmd/sluice ./cmd/watcher ./cmd/executor ./cmd/analyzer

control-plane: ## Build the embedded control plane, Prometheus, OpenKruise and gateway kinds into bin/ (minutes the first time)
	@dev/cluster/build
	@dev/prometheus/build
	@dev/kruise/build
	@dev/crds/build

demo: ## Watch canary releases, on an embedded control plane with Prometheus (KEEP=1 leaves it running)
	@echo "This shows releases on a real Kubernetes control plane, embedded here. Its pods are simulated (kwok)."
	@dev/cluster/build
	@dev/prometheus/build
	@echo "Building sluice: about 1 minute the first time."
	@CGO_ENABLED=0 go build -o bin/ ./cmd/sluice ./dev/demo && bin/demo

test: ## Run all tests, with the time of each stage
	@dev/test

test-live: ## Carry out releases through real gateways while requests are sent, none of which may fail (10 minutes the first time)
	@dev/cluster/build
	@dev/crds/build
	-@dev/traefik/build
	-@dev/istio/build
	-@dev/envoy/build
	-@dev/nginx/build
	CGO_ENABLED=0 go test -vet=off -count=1 -v -parallel 4 -timeout 30m ./test/live

oldest: ## Play what is held, refused and released on the oldest Kubernetes that is supported (minutes the first time)
	@dev/cluster/build
	@dev/cluster/oldest/build
	SLUICE_KUBERNETES=$(CURDIR)/bin/sluice-oldest go test -count=1 -run 'Webhook|TheAPIServerJudges' ./test/older ./test/hold ./test/validate

crash: ## Let releases and analyses fail at every write, message and watch frame, in every way (6 hours; make test plays a selection; ARGS=-crash.list tells the ways)
	@dev/cluster/build
	@dev/prometheus/build
	@dev/kruise/build
	go test ./test/crash -timeout 12h -v -run TestWhateverGoesWrong -crash.all $(ARGS)

explore: ## Ask for everything in every state of the core that can be reached, millions, and play 20,000 random lives (an hour and 16 GiB; make test plays a selection)
	GOGC=off GOMEMLIMIT=16GiB go test ./pkg/rollout -timeout 12h -v -run EveryReachableState -rollout.asked 1048576
	go test ./pkg/rollout -timeout 12h -v -run LongLives -rapid.checks 20000

mutants: ## Break the executor in ten ways and show which test notices
	@dev/cluster/build
	@dev/prometheus/build
	@dev/kruise/build
	go run ./dev/mutants

judge: ## Show how often analysis is wrong, and how fast it is right, beside classical tests (minutes; ARGS=--help)
	go run ./dev/judge $(ARGS)

bench: ## Measure releases beside their budgets (ARGS=--full for all sizes, ARGS=--help for more)
	@dev/cluster/build
	go run ./dev/bench $(ARGS)

lint: ## Run gofmt, vet, staticcheck and the import rule, and check that generated files are up to date
	@dev/lint

generate: ## Write deep copies and CRDs anew
	go generate ./pkg/api ./deploy

clean: ## Remove what the build made
	rm -rf bin
