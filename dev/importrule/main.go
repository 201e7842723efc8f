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

// allowed lists, for each package, which of ours it may import. Packages below one of these names follow its rule.
var allowed = map[string][]string{
	"pkg/api":           {},
	"pkg/rollout":       {"pkg/api"},
	"pkg/routing":       {"pkg/api", "pkg/rollout"},
	"pkg/script":        {"pkg/api", "lua_configuration"},
	"lua_configuration": {},
	"pkg/event":         {"pkg/api", "pkg/rollout"},
	"pkg/analysis":      {"pkg/api", "pkg/rollout"},
	"pkg/workload":      {"pkg/api", "pkg/rollout"},
	"pkg/traffic":       {"pkg/api", "pkg/rollout", "pkg/script", "lua_configuration"},
	"pkg/queue":         {"pkg/api", "pkg/rollout", "pkg/event"},
	"pkg/metric":        {"pkg/api", "pkg/rollout", "pkg/analysis"},
	"pkg/cluster":       {"pkg/api", "pkg/rollout", "pkg/routing", "pkg/workload", "pkg/traffic", "pkg/analysis", "pkg/script", "pkg/hold", "lua_configuration"},
	"pkg/health":        {},
	"pkg/hold":          {"pkg/api"},
	"pkg/preflight":     {"pkg/api", "pkg/hold", "pkg/rollout", "pkg/traffic", "pkg/workload", "test/controlplane"},
	"pkg/watcher":       {"pkg/api", "pkg/hold", "pkg/rollout", "pkg/routing", "pkg/traffic", "pkg/script", "pkg/queue", "pkg/event", "lua_configuration"},
	"pkg/executor":      {"pkg/api", "pkg/rollout", "pkg/routing", "pkg/cluster", "pkg/queue", "pkg/event"},
	"pkg/analyzer":      {"pkg/api", "pkg/rollout", "pkg/cluster", "pkg/analysis", "pkg/metric", "pkg/queue", "pkg/event"},
}

// tests may import these beside what their package may: control planes to run on, a Prometheus to ask, what makes a client of one,
// and tables of cases that several share.
var tests = []string{"test/controlplane", "test/hold", "test/natsdir", "test/ports", "test/prometheus", "test/validate", "test/world", "pkg/script", "lua_configuration"}

// free may import anything of ours but commands.
var free = []string{"cmd", "test", "dev", "deploy", "examples", "pkg/trafficrouting"}

// core may import nothing of others than these, beside the standard library: it must stay a pure function.
var core = []string{"k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/types", "k8s.io/api/core/v1"}

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
	if name == "pkg/rollout" || name == "pkg/routing" {
		for _, path := range p.Imports {
			if strings.Contains(strings.SplitN(path, "/", 2)[0], ".") && !strings.HasPrefix(path, module) && !slices.Contains(core, path) {
				list = append(list, fmt.Sprintf("%s imports %s: the core is pure", name, path))
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
