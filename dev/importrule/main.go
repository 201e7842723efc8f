// Command importrule fails when a package imports one of ours that the architecture does not let it import: arrows point one
// way, and siblings do not know each other. Run it in the root of the module; test files count as well.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

const module = "sluice.dev/sluice/"

// allowed lists, for each package, which of ours it may import. Packages below one of these names follow its rule. ADR 21 has the floors: a
// package imports packages of lower floors only.
var allowed = map[string][]string{
	// Floor 1: the API, scripts, the table of kinds of workloads, and packages that know nothing of releases.
	"pkg/api":            {},
	"pkg/certwatch":      {},
	"pkg/diff":           {},
	"pkg/health":         {},
	"pkg/script":         {"pkg/api", "lua_configuration"},
	"pkg/workload/kinds": {"pkg/api"},
	"lua_configuration":  {},
	// Floor 2: the model of a release.
	"pkg/rollout": {"pkg/api"},
	// Floor 3: decisions, records, patches and routes.
	"pkg/planner":        {"pkg/api", "pkg/rollout"},
	"pkg/trafficrouting": {"pkg/api", "pkg/rollout"},
	"pkg/release":        {"pkg/api", "pkg/rollout"},
	"pkg/history":        {"pkg/api", "pkg/rollout"},
	"pkg/fleet":          {"pkg/api"},
	"pkg/fleetmessage":   {"pkg/api"},
	"pkg/workload":       {"pkg/api", "pkg/rollout"},
	"pkg/traffic":        {"pkg/api", "pkg/rollout", "pkg/script", "lua_configuration"},
	// Floor 4: events, metrics and admission.
	"pkg/event":    {"pkg/api", "pkg/rollout"},
	"pkg/analysis": {"pkg/api", "pkg/rollout"},
	"pkg/hold":     {"pkg/api", "pkg/workload/kinds"},
	// Floor 5: the world outside: the API server, NATS and Prometheus.
	"pkg/kube": {"pkg/api", "pkg/rollout", "pkg/trafficrouting", "pkg/history", "pkg/workload", "pkg/traffic", "pkg/analysis", "pkg/script", "pkg/hold", "lua_configuration"},
	// kube stands on these three packages: each may import less than kube, and none imports kube.
	"pkg/kube/cache":     {"pkg/api", "pkg/rollout"},
	"pkg/kube/apiclient": {"pkg/api", "pkg/rollout"},
	"pkg/kube/policies":  {"pkg/api", "pkg/rollout", "pkg/workload", "pkg/hold", "pkg/kube/apiclient"},
	"pkg/queue":          {"pkg/api", "pkg/rollout", "pkg/event", "pkg/fleetmessage"},
	"pkg/decision":       {"pkg/event", "pkg/queue"}, // it stands on queue, as kube stands on its packages
	"pkg/metric":         {"pkg/api", "pkg/rollout", "pkg/analysis"},
	"pkg/webhook":        {"pkg/api", "pkg/rollout", "pkg/hold", "pkg/certwatch"},
	"pkg/preflight":      {"pkg/api", "pkg/fleet", "pkg/hold", "pkg/rollout", "pkg/traffic", "pkg/workload", "deploy", "test/controlplane"},
	// Floor 6: the components.
	"pkg/watcher":   {"pkg/api", "pkg/hold", "pkg/rollout", "pkg/trafficrouting", "pkg/traffic", "pkg/script", "pkg/queue", "pkg/event", "pkg/workload/kinds", "lua_configuration"},
	"pkg/receiver":  {"pkg/api", "pkg/fleet", "pkg/event", "pkg/queue", "pkg/certwatch"},
	"pkg/fleetlink": {"pkg/api", "pkg/fleetmessage", "pkg/queue"},
	"pkg/fleethub":  {"pkg/api", "pkg/fleet", "pkg/fleetmessage", "pkg/event", "pkg/kube", "pkg/queue", "pkg/decision"},
	"pkg/executor":  {"pkg/api", "pkg/rollout", "pkg/planner", "pkg/history", "pkg/trafficrouting", "pkg/kube", "pkg/queue", "pkg/decision", "pkg/event"},
	"pkg/analyzer":  {"pkg/api", "pkg/rollout", "pkg/kube", "pkg/analysis", "pkg/metric", "pkg/queue", "pkg/event"},
	// Floor 7: what plays a release without a cluster.
	"pkg/simulate": {"pkg/api", "pkg/rollout", "pkg/planner", "pkg/release", "pkg/trafficrouting", "pkg/kube", "pkg/executor", "pkg/workload", "pkg/script", "pkg/diff", "deploy", "lua_configuration"},
}

// tests may import these in addition to the packages of their own rule: control planes, a Prometheus, clients,
// shared tables of cases, decisions to carry out, and records of them.
var tests = []string{"test/controlplane", "test/hold", "test/natsdir", "test/ports", "test/prometheus", "test/validate", "test/world", "pkg/script", "pkg/planner", "pkg/history", "lua_configuration"}

// free may import anything of ours but commands.
var free = []string{"cmd", "test", "dev", "deploy", "examples", "pkg/trafficrouting/network"}

// pure packages may import only the standard library and external.
var (
	pure     = []string{"pkg/rollout", "pkg/planner", "pkg/trafficrouting", "pkg/release", "pkg/history", "pkg/fleet"}
	external = []string{
		"k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/types", "k8s.io/api/core/v1",
		"k8s.io/apimachinery/pkg/labels", "k8s.io/apimachinery/pkg/util/intstr",
	}
)

type pkg struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func main() {
	broken, err := check()
	if err != nil {
		fmt.Fprintln(os.Stderr, "importrule:", err)
		os.Exit(2)
	}
	for _, line := range broken {
		fmt.Println(line)
	}
	if len(broken) > 0 {
		os.Exit(1)
	}
}

func check() ([]string, error) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	var broken []string
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return broken, nil
		} else if err != nil {
			return nil, fmt.Errorf("read list of packages: %w", err)
		}
		broken = append(broken, breaches(p)...)
	}
}

func breaches(p pkg) []string {
	name := strings.TrimPrefix(p.ImportPath, module)
	if under(name, free) != "" {
		return nil
	}
	rule, ok := allowed[nearest(name)]
	if !ok {
		return []string{name + ": no rule; add it to dev/importrule, or put the package where it belongs"}
	}
	list := strangers(name, p.Imports, rule)
	list = append(list, strangers(name, slices.Concat(p.TestImports, p.XTestImports), slices.Concat(rule, tests))...)
	if slices.Contains(pure, name) {
		for _, path := range p.Imports {
			if strings.Contains(strings.SplitN(path, "/", 2)[0], ".") && !strings.HasPrefix(path, module) && !slices.Contains(external, path) {
				list = append(list, fmt.Sprintf("%s imports %s: the package is pure", name, path))
			}
		}
	}
	return list
}

// strangers are the imports of ours that a rule does not allow.
func strangers(name string, imports, rule []string) []string {
	var list []string
	for _, path := range imports {
		ours, is := strings.CutPrefix(path, module)
		if is && under(ours, rule) == "" && !inside(ours, nearest(name)) {
			list = append(list, fmt.Sprintf("%s imports %s, which it may not", name, ours))
		}
	}
	return list
}

// nearest is the longest name with a rule that the package lies in.
func nearest(name string) string {
	best := ""
	for rule := range allowed {
		if inside(name, rule) && len(rule) > len(best) {
			best = rule
		}
	}
	return best
}

func under(name string, roots []string) string {
	for _, root := range roots {
		if inside(name, root) {
			return root
		}
	}
	return ""
}

func inside(name, root string) bool { return name == root || strings.HasPrefix(name, root+"/") }
