package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
)

var (
	// units are the packages whose tests `suite test` runs completely. Some start their own control plane; the longest are first.
	units = []string{"./cmd/sluice", "./pkg/kube", "./pkg/executor", "./pkg/watcher", "./pkg/queue", "./pkg/...", "./cmd/...", "./deploy/...", "./lua_configuration/...", "./dev/...", "-./dev/bench", "-./dev/demo"}

	// limits are tests of the memory and CPU that scripts use, with the default garbage collection of users.
	limits = []string{"TestHostileScriptsKeepTheLimits", "TestCallOfTheVirtualServiceScriptIsCheap"}

	// concurrent are the packages that start goroutines or share memory between them. They run with the race detector. clients are such packages in commands
	// for users; the race detector runs their tests without a control plane. TestWhatRunsAtOnceIsRaced fails for a package in neither list.
	concurrent = []string{
		"./pkg/kube/...", "./pkg/executor", "./pkg/watcher", "./pkg/receiver/...", "./pkg/webhook", "./pkg/certwatch", "./pkg/queue/...", "./pkg/fleetlink", "./pkg/fleethub", "./pkg/analyzer", "./pkg/script", "./pkg/analysis", "./pkg/metric",
		"./pkg/health", "./pkg/preflight", "./cmd/internal/component", "./cmd/internal/view", "./dev/demo/app", "./dev/demo/load", "./dev/demo/router",
	}
	clients = []string{"./cmd/sluice", "./pkg/simulate"}

	// scenarios are packages on a real control plane. `suite test` runs their tests in the table of promises, and `suite verify` all others.
	scenarios = []string{
		"test/scenario", "test/workload", "test/gateway", "test/analysis", "test/hold", "test/kruise", "test/validate", "test/deploy", "test/prometheus",
		"test/controlplane", "test/world", "test/fleet", "test/helm", "test/luacompat", "test/webhookmode", "test/kill", "dev/bench", "dev/demo",
	}

	// validators are modules with the code of gateway vendors, which reads objects as the gateway does.
	validators = []string{"test/validators/apisix", "test/validators/istio", "test/validators/kuma", "test/validators/traefik"}

	// readers are modules with the code of programs that read a file of Sluice.
	readers = []string{"test/compose", "test/monitoring"}
)

// sideBySide is the number of parallel tests of a package on a control plane. They mostly wait, but each of their writes loads the API server, which times out
// a large write after half a minute.
const sideBySide = 8

// crashesOfFleets is a test that runs by itself, because it has control planes of its own.
const crashesOfFleets = "TestWhateverGoesWrongInAFleetIsHealed"

// planOf returns the plan of a command.
func planOf(command string) (plan, error) {
	list, err := readPromises()
	if err != nil {
		return plan{}, err
	}
	switch command {
	case "test":
		return plan{command, testStages(list)}, nil
	case "verify":
		return plan{command, verifyStages(list)}, nil
	}
	return plan{}, fmt.Errorf("there is no plan %q", command)
}

func testStages(list []promise) []stage {
	return []stage{
		{name: "control plane", builds: []string{"dev/cluster/build", "dev/prometheus/build", "dev/kruise/build", "dev/crds/build", "dev/helm/build"}},
		{name: "unit", jobs: []job{
			racedJob(),
			{packages: append(slices.Clone(units), without(concurrent)...), skip: anyOf(limits), abreast: runtime.NumCPU()},
			{packages: []string{"./pkg/script"}, how: "limits", run: anyOf(limits), env: []string{"GOGC=100"}},
		}, abreast: 2},
		{name: "promises", jobs: append(promisedJobs(list), moduleJobs(append(readers, "dev/images"))...), abreast: runtime.NumCPU()},
	}
}

// racedJob runs the concurrent packages with the race detector if there is a C compiler. Both commands have this job: the second of them finds the results
// in the cache of go test.
func racedJob() job {
	return job{packages: concurrent, skip: anyOf(limits), race: true, abreast: runtime.NumCPU() + 1}
}

// without returns the patterns that exclude what these patterns select.
func without(patterns []string) (excluding []string) {
	for _, pattern := range patterns {
		excluding = append(excluding, "-"+pattern)
	}
	return excluding
}

// promisedJobs run the tests in the table of promises, of each package on a real control plane.
func promisedJobs(list []promise) (jobs []job) {
	for _, pkg := range scenarios {
		if tests := promised(list, pkg); len(tests) > 0 {
			jobs = append(jobs, job{packages: []string{"./" + pkg}, run: anyOf(tests), parallel: sideBySide})
		}
	}
	return jobs
}

func verifyStages(list []promise) []stage {
	return []stage{
		{name: "planes", builds: []string{"dev/cluster/build", "dev/prometheus/build", "dev/kruise/build", "dev/crds/build", "dev/helm/build", "-dev/traefik/build", "-dev/nginx/build"}},
		{name: "models", jobs: []job{{packages: []string{"./pkg/planner"}, run: "EveryReachableState", how: "whole", args: []string{"-rollout.acts=3", "-rollout.asked=200"},
			// Garbage collection would take most of the time of a million states.
			env: []string{"GOGC=off", "GOMEMLIMIT=6GiB"}},
			// The models of a hold, of a newer version and of a late executor have too many states with two acts; make explore plays them.
			{packages: []string{"./pkg/fleet"}, run: "EveryStateOfSmallFleets/^(two|metrics|clusters|executors|pods)", how: "two acts", args: []string{"-fleet.acts=2"}}}},
		{name: "race", jobs: []job{
			racedJob(),
			{packages: clients, race: true, short: true},
		}, abreast: 2},
		{name: "releases", jobs: releaseJobs(list), abreast: runtime.NumCPU()},
	}
}

// releaseJobs run all tests that promisedJobs omit, and the tests of nested modules.
func releaseJobs(list []promise) []job {
	jobs := []job{
		{packages: []string{"./test/crash"}, skip: crashesOfFleets, parallel: 20},
		{packages: []string{"./test/crash"}, how: "fleets", run: crashesOfFleets},
		{packages: []string{"./test/matrix"}},
		{packages: []string{"./test/matrix"}, how: "under kills", run: "TestMatrix", args: []string{"-matrix.one", "-matrix.kill=1s"}},
		{packages: []string{"./test/live"}, run: "TestLive/(Traefik_by_HTTPRoute|ingress-nginx_by_Ingress)$|TestUsersStay", parallel: 4},
	}
	for _, pkg := range scenarios {
		jobs = append(jobs, job{packages: []string{"./" + pkg}, skip: anyOf(promised(list, pkg)), parallel: sideBySide})
	}
	jobs = append(jobs, moduleJobs([]string{"dev/cluster"})...)
	return append(jobs, moduleJobs(validators)...)
}

// moduleJobs run nested modules. The cache does not know the files that they read outside of the module.
func moduleJobs(modules []string) (jobs []job) {
	for _, module := range modules {
		jobs = append(jobs, job{module: module, packages: []string{"."}, uncached: true})
	}
	return jobs
}

// wholes are the complete stages from which `suite verify` runs a selection.
func wholes() []stage {
	return []stage{
		{name: "live", builds: []string{"dev/cluster/build", "dev/crds/build", "-dev/traefik/build", "-dev/istio/build", "-dev/envoy/build", "-dev/nginx/build"},
			jobs: []job{{packages: []string{"./test/live"}, how: "whole", parallel: 4, uncached: true}}},
		{name: "older", builds: []string{"dev/cluster/build", "dev/crds/build", "dev/helm/build", "dev/cluster/oldest/build"},
			jobs: []job{{packages: []string{"./test/webhookmode", "./test/hold", "./test/validate", "./test/helm"}, how: "oldest", run: "Webhook|TheAPIServerJudges|TheAPIServerTakes", uncached: true,
				env: []string{"SLUICE_KUBERNETES=" + absolute("bin/sluice-oldest")}}}},
		{name: "images", jobs: []job{{module: "dev/images", packages: []string{"."}, how: "whole", uncached: true, env: []string{"SLUICE_IMAGES=whole"}}}},
		{name: "crash", builds: []string{"dev/cluster/build", "dev/prometheus/build", "dev/kruise/build"},
			jobs: []job{
				{packages: []string{"./test/crash"}, how: "whole, fleets", run: crashesOfFleets, args: []string{"-crash.all"}, uncached: true, timeout: wholeDay},
				{packages: []string{"./test/crash"}, how: "whole", run: "TestWhateverGoesWrong", skip: crashesOfFleets, args: []string{"-crash.all"}, uncached: true, timeout: wholeDay},
			}},
		{name: "matrix", builds: []string{"dev/cluster/build", "dev/kruise/build", "dev/crds/build"},
			jobs: []job{{packages: []string{"./test/matrix"}, how: "whole", args: []string{"-matrix.all", "-matrix.kill=1s"}, uncached: true, timeout: wholeDay}}},
		{name: "explore", jobs: []job{
			{packages: []string{"./pkg/planner"}, how: "asked in every state", run: "EveryReachableState", args: []string{"-rollout.acts=3", "-rollout.asked=" + strconv.Itoa(1<<20)},
				env: []string{"GOGC=off", "GOMEMLIMIT=16GiB"}, uncached: true, timeout: wholeDay},
			{packages: []string{"./pkg/fleet"}, how: "two acts", run: "EveryStateOfSmallFleets", args: []string{"-fleet.acts=2"}, uncached: true, timeout: wholeDay},
			{packages: []string{"./pkg/fleet"}, how: "2,000 lives", run: "LongLives", args: []string{"-fleet.lives=2000"}, uncached: true, timeout: wholeDay},
			{packages: []string{"./pkg/planner"}, how: "20,000 lives", run: "LongLives", args: []string{"-rapid.checks=20000"}, uncached: true, timeout: wholeDay},
		}},
	}
}

// absolute returns a path of the tree for a test binary, which runs in the directory of its package.
func absolute(path string) string {
	dir, err := os.Getwd()
	if err != nil {
		return path
	}
	return filepath.Join(dir, path)
}
