package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/cmd/sluice/internal/chart"
	"sluice.dev/sluice/cmd/sluice/internal/report"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/test/drawn"
)

// measurement is one measurement of a case. The measurements of one run follow every 30 s from 10:00:00 on.
type measurement struct {
	Of                *int64 // the pauseSeq, if it differs from the run's pauseSeq
	Scope, Template   string
	Metric            string
	Outcomes          string
	Values            []float64
	Repeated, Several bool
}

func TestWhatIsWritten(t *testing.T) {
	t.Parallel()
	drawn.Cases(t, func(t *testing.T) drawn.Case {
		view := report.View{Rollout: &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "checkout", UID: "u-1"}}}
		return func(name string, content []byte) (string, bool) {
			switch name {
			case "status.yaml":
				decode(t, content, &view.Rollout.Status)
			case "measured.yaml":
				var list []measurement
				decode(t, content, &list)
				for _, m := range list {
					view.Measured = append(view.Measured, m.events(t)...)
				}
			case "metrics.yaml":
				var list []api.Metric
				decode(t, content, &list)
				view.Limits = map[report.Key][]chart.Limit{}
				for _, m := range list {
					view.Limits[report.Key{Scope: report.ScopeStep, Template: "AnalysisTemplate/success-rate", Metric: m.Name}] = report.LimitsOf(m, map[string]string{"limit": "0.99"})
				}
			case "note":
				view.Note = strings.TrimSpace(string(content))
			default:
				return strings.Join(report.Render(view, chart.Style{Width: 60, Color: name == "terminal", Unicode: name == "terminal"}), "\n") + "\n", true
			}
			return "", false
		}
	})
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatal(err)
	}
}

// events returns the data of the measurements, the last one first and repeated if the case says so.
func (m measurement) events(t *testing.T) (list []event.Measured) {
	t.Helper()
	outcomes := map[rune]string{'p': "pass", 'f': "fail", 'i': "inconclusive", 'n': "noData", 'e': "error"}
	for i, letter := range m.Outcomes {
		one := event.Measured{
			Analysis: event.Analysis{UID: "u-1", Release: &event.Release{Epoch: 1}, Scope: m.Scope, PauseSeq: 3},
			Template: m.Template, Metric: m.Metric, Outcome: outcomes[letter],
			Window: event.WindowOf(time.Date(2026, 11, 20, 10, 0, 30*i, 0, time.UTC), time.Minute),
		}
		if m.Scope == report.ScopeRelease {
			one.PauseSeq = 1
		}
		if m.Of != nil {
			one.PauseSeq = *m.Of
		}
		if letter != 'n' && letter != 'e' {
			if m.Several {
				one.Values = m.Values
			} else {
				one.Value = &m.Values[i]
			}
		}
		list = append([]event.Measured{one}, list...)
	}
	if m.Repeated {
		list = append(list, list...)
	}
	return list
}

func TestLimitsOfAMetric(t *testing.T) {
	t.Parallel()
	args := map[string]string{"limit": "0.9", "word": "much"}
	for name, test := range map[string]struct {
		metric api.Metric
		want   []chart.Limit
	}{
		"numbers of both expressions": {
			api.Metric{PassWhen: "value >= 0.99", FailWhen: "value < 0.95"},
			[]chart.Limit{{Value: 0.99, Text: "passWhen value >= 0.99"}, {Value: 0.95, Text: "failWhen value < 0.95"}},
		},
		"a range":                              {api.Metric{PassWhen: "value > -1e3 && value < 2"}, []chart.Limit{{Value: -1000, Text: "passWhen value > -1e3 && value < 2"}, {Value: 2, Text: "passWhen value > -1e3 && value < 2"}}},
		"an argument":                          {api.Metric{PassWhen: "value <= double(args.limit)"}, []chart.Limit{{Value: 0.9, Text: "passWhen value <= double(args.limit)"}}},
		"an argument that is none":             {api.Metric{PassWhen: "value <= double(args.word)"}, nil},
		"something else":                       {api.Metric{PassWhen: "values.all(v, v < 3.0)"}, nil},
		"a comparison":                         {api.Metric{Compare: &api.Compare{}}, []chart.Limit{{Value: 1, Text: "times the stable version's rate is no worse"}}},
		"a comparison that tolerates a little": {api.Metric{Compare: &api.Compare{TolerateRatio: 1.5}}, []chart.Limit{{Value: 1.5, Text: "times the stable version's rate is no worse"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, report.LimitsOf(test.metric, args)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
