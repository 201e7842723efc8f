# All targets need only Go, git and make. `make` lists the targets.

.DEFAULT_GOAL := help

# No debugger reads these binaries, and the compiler needs a tenth less time without DWARF.
export GOFLAGS := $(GOFLAGS) -gcflags=all=-dwarf=false

.PHONY: help build images control-plane demo demo-fleet test verify crash flaky mutants judge bench lint generate clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build sluice, watcher, executor and analyzer into bin/
	@mkdir -p bin
	CGO_ENABLED=0 go build -o bin/ ./cmd/sluice ./cmd/watcher ./cmd/executor ./cmd/analyzer

images: ## Build the container images for amd64 and arm64 into bin/images, without a container engine (ARGS="--version v1" and others)
	@cd dev/images && GOFLAGS= go run . $(ARGS)

control-plane: ## Build the embedded control plane, Prometheus, OpenKruise and gateway kinds into bin/ (minutes the first time)
	@dev/cluster/build
	@dev/prometheus/build
	@dev/kruise/build
	@dev/crds/build
	@dev/helm/build

demo: ## Run canary releases on an embedded control plane with Prometheus (KEEP=1 leaves it running)
	@echo "This shows releases on a real Kubernetes control plane, embedded here. Its pods are simulated (kwok)."
	@dev/cluster/build
	@dev/prometheus/build
	@echo "Building sluice: about 1 minute the first time."
	@CGO_ENABLED=0 go build -o bin/ ./cmd/sluice ./dev/demo && bin/demo

demo-fleet: ## Run releases over three clusters and their hub, on embedded control planes with Prometheus (KEEP=1 leaves them running)
	@echo "This shows releases over three Kubernetes clusters, embedded here with their hub. Their pods are simulated (kwok)."
	@dev/cluster/build
	@dev/prometheus/build
	@echo "Building sluice: about 1 minute the first time."
	@CGO_ENABLED=0 go build -o bin/ ./cmd/sluice ./dev/demo && bin/demo -fleet

test: ## Run the tests that a change must pass, in ten minutes (ARGS=--help for more)
	@go build -o bin/ ./dev/suite && bin/suite test $(ARGS)

verify: ## Run all other tests, in half an hour (ARGS=--help for more, such as all crash plans or all gateways)
	@go build -o bin/ ./dev/suite && bin/suite verify $(ARGS)

crash: ## Play all crash plans, those of fleets too, in about two hours
	@go build -o bin/ ./dev/suite && bin/suite verify --whole=crash

flaky: control-plane ## Run packages many times under load, and count the failures of each test (ARGS="./pkg/queue --runs 50")
	@go build -o bin/ ./dev/suite && bin/suite flaky $(ARGS)

mutants: ## Break the product on purpose, one mistake at a time, and show which test of `make test` fails
	@dev/cluster/build
	go run ./dev/mutants

judge: ## Show how often analysis is wrong, and how fast it is right, compared with classical tests (minutes; ARGS=--help)
	go run ./dev/judge $(ARGS)

bench: ## Measure releases against their budgets (ARGS=--full for all sizes, ARGS=--help for more)
	@dev/cluster/build
	go run ./dev/bench $(ARGS)

lint: ## Run gofmt, vet, staticcheck, the import rule and the limits of prose, and check that generated files are up to date
	@dev/lint

generate: ## Regenerate deep copies, CRDs, policies and the Helm chart
	go generate ./pkg/api ./deploy

clean: ## Remove the files of the build
	rm -rf bin
