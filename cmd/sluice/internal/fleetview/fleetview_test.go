package fleetview_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/cmd/internal/color"
	"sluice.dev/sluice/cmd/sluice/internal/fleetview"
	"sluice.dev/sluice/cmd/sluice/internal/table"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
	"sluice.dev/sluice/test/drawn"
)

// now is when each of the cases is looked at.
var now = time.Date(2026, 11, 20, 10, 30, 0, 0, time.UTC)

// Each case has objects, and texts whose names say how they are drawn.
func TestWhatIsDrawn(t *testing.T) {
	drawn.Cases(t, func(t *testing.T) drawn.Case {
		var shown fleetview.View
		return func(name string, content []byte) (string, bool) {
			if name == "objects.yaml" {
				shown = viewOf(t, content)
				return "", false
			}
			return drawView(t, name, shown), true
		}
	})
}

// drawView draws a view in the form that the name of a text says.
func drawView(t *testing.T, name string, v fleetview.View) string {
	t.Helper()
	var s fleetview.Style
	var lines []string
	form := ""
	for _, word := range strings.Fields(name) {
		switch word {
		case "terminal":
			s.Color, s.Unicode = true, true
		case "elsewhere":
			s.Command, s.Namespaced, s.Context = "kubectl sluice", true, "hub"
		case "short":
			s.MaxClusters = 3
		default:
			form = word
		}
	}
	var out bytes.Buffer
	printRows := func(t *testing.T, rows *metav1.Table, err error) {
		t.Helper()
		if err == nil {
			err = (&table.Printer{Out: &out, Wide: true, Namespaces: form == "list"}).PrintRows(rows)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	switch form {
	case "tree":
		lines = fleetview.Render(v, s)
	case "attention":
		lines = fleetview.AttentionLines(fleetview.ReadAttention([]api.FleetRollout{*v.Rollout}, v.Members, s), s, now)
	case "plan":
		spec, err := fleet.Parse(*v.Strategy)
		if err != nil {
			t.Fatal(err)
		}
		members := map[string]labels.Set{}
		for _, m := range v.Members {
			members[m.Name] = m.Labels
		}
		lines = fleetview.PlanLines(fleetview.NewPlan(v, fleet.Forecast(spec, "uid", members)), color.Ink{On: s.Color})
	case "list":
		rows, err := fleetview.RolloutTable([]api.FleetRollout{*v.Rollout}, now)
		printRows(t, rows, err)
	case "targets":
		rows, err := fleetview.TargetTable(fleetview.ReadClusters(v), now)
		printRows(t, rows, err)
	case "members":
		rows, err := fleetview.MemberTable(v.Members, now)
		printRows(t, rows, err)
	default:
		t.Fatalf("no form of text is named in %q", name)
	}
	for _, line := range lines {
		out.WriteString(line + "\n")
	}
	var trimmed strings.Builder
	for line := range strings.Lines(out.String()) {
		trimmed.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return trimmed.String()
}

// viewOf reads the objects of a case. An Unread object stands for a sentence, and Unreadable members for those that the user may not read.
func viewOf(t *testing.T, objects []byte) fleetview.View {
	t.Helper()
	v := fleetview.View{Now: now, Members: []api.FleetMember{}}
	for _, document := range bytes.Split(objects, []byte("\n---\n")) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatal(err)
		}
		switch kind.Kind {
		case "FleetRollout":
			v.Rollout = read[api.FleetRollout](t, document)
			if v.Rollout.Spec.Plan == "" {
				v.Strategy = &v.Rollout.Spec.FleetStrategy
			}
		case "FleetPlan":
			v.Strategy = &read[api.FleetPlan](t, document).Spec.FleetStrategy
		case "FleetTarget":
			v.Targets = append(v.Targets, *read[api.FleetTarget](t, document))
		case "FleetMember":
			v.Members = append(v.Members, *read[api.FleetMember](t, document))
		case "Unreadable":
			v.Members, v.Unread = nil, []string{"FleetMembers cannot be shown: forbidden"}
		default:
			t.Fatalf("a case has an object of kind %q", kind.Kind)
		}
	}
	return v
}

func read[T any](t *testing.T, document []byte) *T {
	t.Helper()
	into := new(T)
	if err := yaml.UnmarshalStrict(document, into); err != nil {
		t.Fatalf("%v in\n%s", err, document)
	}
	return into
}
