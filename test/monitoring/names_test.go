package monitoring

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"k8s.io/client-go/rest"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/executor"
	"sluice.dev/sluice/pkg/fleethub"
	"sluice.dev/sluice/pkg/fleetlink"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/receiver"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/watcher"
)

const directory = "../../deploy/monitoring"

// described collects the names of all registered metrics, with or without values.
type described struct {
	prometheus.Registerer
	names map[string]bool
}

var fqName = regexp.MustCompile(`fqName: "([^"]+)"`)

func (d described) MustRegister(list ...prometheus.Collector) {
	for _, c := range list {
		descriptions := make(chan *prometheus.Desc, 100)
		c.Describe(descriptions)
		close(descriptions)
		for desc := range descriptions {
			d.names[fqName.FindStringSubmatch(desc.String())[1]] = true
		}
	}
}

func (d described) Register(c prometheus.Collector) error {
	d.MustRegister(c)
	return nil
}

// exported returns the names of the metrics of all components, without any connections.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	d := described{names: map[string]bool{"process_resident_memory_bytes": true, "process_cpu_seconds_total": true, "go_goroutines": true}}
	nowhere, log := &rest.Config{Host: "http://127.0.0.1:1"}, slog.New(slog.DiscardHandler)
	queue.NewMetrics(d, queue.TaskRelease)
	client, err := kube.New(nowhere, kube.Options{Scripts: script.NewLibrary(luaconfiguration.FS, ""), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	executor.New(executor.Options{Registerer: d, Logger: log, Kube: client})
	if _, err := watcher.New(watcher.Options{Config: nowhere, Logger: log, Registerer: d}); err != nil {
		t.Fatal(err)
	}
	receiver.New(receiver.Options{Logger: log, Registerer: d})
	fleetlink.New(fleetlink.Options{Logger: log, Registerer: d})
	if _, err := fleethub.New(fleethub.Options{Config: nowhere, Logger: log, Registerer: d}); err != nil {
		t.Fatal(err)
	}
	return d.names
}

func rules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(filepath.Join(directory, "rules.yaml"), false, model.UTF8Validation, parser.NewParser(parser.Options{}), nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var list []rulefmt.Rule
	for _, g := range groups.Groups {
		list = append(list, g.Rules...)
	}
	return list
}

// queries returns the expressions of the dashboard, with a range instead of Grafana's variable.
func queries(t *testing.T) []string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(directory, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(body, &dashboard); err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			list = append(list, strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"))
		}
	}
	if len(list) == 0 {
		t.Fatal("the dashboard asks for nothing")
	}
	return list
}

// selected returns the names of the metrics that an expression reads.
func selected(t *testing.T, expr string) (names []string) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		for _, m := range selector.LabelMatchers {
			if m.Name == model.MetricNameLabel && (m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp) {
				names = append(names, strings.Split(m.Value, "|")...)
			}
		}
		return nil
	})
	return names
}

func TestRulesAndDashboardReadMetricsThatExist(t *testing.T) {
	have := exported(t)
	exprs := queries(t)
	for _, r := range rules(t) {
		exprs = append(exprs, r.Expr)
	}
	for _, expr := range exprs {
		names := selected(t, expr)
		if len(names) == 0 {
			t.Errorf("%s reads no metric", expr)
		}
		for _, name := range names {
			base := name
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if cut, ok := strings.CutSuffix(name, suffix); ok && have[cut] {
					base = cut
				}
			}
			if !have[base] {
				t.Errorf("%s: there is no metric %s", expr, name)
			}
		}
	}
}

func TestEachMetricIsOnTheDashboardOrInARule(t *testing.T) {
	var all strings.Builder
	for _, q := range queries(t) {
		all.WriteString(q + "\n")
	}
	for _, r := range rules(t) {
		all.WriteString(r.Expr + "\n")
	}
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range exported(t) {
			if !yield(name) {
				return
			}
		}
	}) {
		if !strings.Contains(all.String(), name) {
			t.Errorf("nobody looks at %s", name)
		}
	}
}

func TestEachAlertSaysWhatToDo(t *testing.T) {
	for _, r := range rules(t) {
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s lacks a severity, a summary or a description", r.Alert)
		}
	}
}
