package fleet

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"sluice.dev/sluice/pkg/api"
)

// A forecast has the clusters that the waves of a release then take, in the same order.
func TestForecast(t *testing.T) {
	t.Parallel()
	some := func(percent int32, n ...string) api.FleetWave {
		w := api.FleetWave{Percent: percent, MaxConcurrency: number(2)}
		if len(n) > 0 {
			w.Clusters = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "n", Operator: metav1.LabelSelectorOpIn, Values: n}}}
		}
		return w
	}
	for name, waves := range map[string][]api.FleetWave{
		"one wave":                                 {everyone()},
		"by labels, and all that are left":         {some(0, "1", "2"), everyone()},
		"a share of some, and a share of the rest": {some(50, "1", "2", "3"), some(30), everyone()},
		"those that no wave selects join the last": {some(0, "1"), some(0, "2", "3")},
		"a wave without clusters":                  {some(0, "none"), everyone()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const clusters = 9
			g := aFleet(t, clusters, waves...)
			members := map[string]labels.Set{}
			for name, m := range g.Members {
				members[name] = m.Labels
			}
			forecast := Forecast(g.Spec, g.UID, members)
			for range 10 * clusters {
				g.plan()
				for name, target := range g.Targets {
					if target.Status.Phase == api.FleetTargetPermitted {
						g.answer(api.FleetReportCompleted, "", name)
					}
				}
				if g.Status.Reason == "NothingProven" {
					g.command(api.FleetCommand{Action: api.FleetCommandSkip})
				}
			}
			if g.Status.Phase != api.FleetPhaseSucceeded {
				t.Fatalf("the release is %s", g.summary())
			}
			for i, want := range forecast {
				got := g.Status.Waves[i]
				if diff := cmp.Diff(fmt.Sprint(want.Name, want.Clusters), fmt.Sprint(got.Name, got.Clusters)); diff != "" {
					t.Errorf("wave %d (-forecast +drawn):\n%s", i+1, diff)
				}
				if n := len(got.Clusters); want.Concurrency != g.Spec.Waves[i].MaxConcurrency.RoundUp(n) || want.Unreachable != g.Spec.Waves[i].Unreachable.RoundDown(n) {
					t.Errorf("wave %d has the numbers %+v", i+1, want)
				}
			}
		})
	}
}
