package analysis

import (
	"testing"

	"sluice.dev/sluice/pkg/api"
)

func TestWhatMakesAMetricAnotherOne(t *testing.T) {
	t.Parallel()
	args := func(change ...string) map[string]string {
		m := map[string]string{"namespace": "shop", "canaryHash": "abc", "step": "1", "weight": "5"}
		for i := 0; i < len(change); i += 2 {
			m[change[i]] = change[i+1]
		}
		return m
	}
	query := func(text string) api.Metric {
		return aDefinition(func(d *api.Metric) { d.Prometheus.Query = api.PromQL(text) })
	}
	base := query("up{hash='{{args.canaryHash}}', step='{{args.step}}'}")
	for name, c := range map[string]struct {
		d    api.Metric
		args map[string]string
		same bool
	}{
		"nothing that changed":           {base, args(), true},
		"another query":                  {query("up"), args(), false},
		"another argument that is used":  {base, args("canaryHash", "def"), false},
		"an argument that is not used":   {base, args("namespace", "other", "more", "x"), true},
		"the next step with more weight": {base, args("step", "2", "weight", "20"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, err := MetricDigest(base, args())
			if err != nil {
				t.Fatal(err)
			}
			after, err := MetricDigest(c.d, c.args)
			if err != nil {
				t.Fatal(err)
			}
			if (before == after) != c.same {
				t.Errorf("%s and %s", before, after)
			}
		})
	}
}
