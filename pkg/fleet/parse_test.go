package fleet

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/pkg/api"
)

func TestAPlanThatIsNotValidSaysWhatToChange(t *testing.T) {
	t.Parallel()
	wave := func(w api.FleetWave) api.FleetStrategy {
		w.Name = "one"
		return api.FleetStrategy{Waves: []api.FleetWave{w}}
	}
	text := func(s string) *intstr.IntOrString { v := intstr.FromString(s); return &v }
	for name, c := range map[string]struct {
		plan api.FleetStrategy
		want string
	}{
		"no waves":      {api.FleetStrategy{}, "waves must have at least one wave"},
		"two of a name": {api.FleetStrategy{Waves: []api.FleetWave{{Name: "a", Percent: 10}, {Name: "a"}}}, "wave 2 has the name a of an earlier wave"},
		"a wave that no cluster can reach": {
			api.FleetStrategy{Waves: []api.FleetWave{{Name: "all"}, {Name: "rest"}}}, "wave 2 (rest) gets no cluster, because wave 1 takes all that are left",
		},
		"a percentage above 100":   {wave(api.FleetWave{MaxConcurrency: text("101%")}), `wave 1 (one): maxConcurrency must be a number, or a percentage from 0% to 100%, and not "101%"`},
		"a text for a number":      {wave(api.FleetWave{Budgets: &api.FleetBudgets{Failed: text("few")}}), `budgets.failed must be a number`},
		"a budget below 0":         {wave(api.FleetWave{Budgets: &api.FleetBudgets{Unknown: number(-1)}}), "budgets.unknown must not be below 0"},
		"a hold before step 1":     {wave(api.FleetWave{HoldAt: &api.FleetHoldAt{}}), "holdAt.step must be the number of a step"},
		"a deadline of no time":    {api.FleetStrategy{Waves: []api.FleetWave{{Name: "a"}}, ProgressDeadline: &metav1.Duration{}}, "must be longer than 0s"},
		"a selector with an error": {wave(api.FleetWave{Clusters: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}}), "wave 1 (one): clusters: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Parse(c.plan); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestPercentagesOfClusters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		amount     Amount
		of         int
		up, downTo int
	}{
		{Amount{Value: 10, Percent: true}, 5, 1, 0}, {Amount{Value: 10, Percent: true}, 11, 2, 1}, {Amount{Value: 100, Percent: true}, 7, 7, 7},
		{Amount{Value: 3}, 2, 3, 3}, {Amount{}, 9, 1, 0}, {Amount{Value: 50, Percent: true}, 0, 1, 0},
	} {
		if up, down := c.amount.RoundUp(c.of), c.amount.RoundDown(c.of); up != c.up || down != c.downTo {
			t.Errorf("%+v of %d is %d and %d, want %d and %d", c.amount, c.of, up, down, c.up, c.downTo)
		}
	}
}
