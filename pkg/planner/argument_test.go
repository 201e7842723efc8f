package planner

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// A query with the share that a step asks for would use a share that no gateway sends yet.
func TestTheArgumentWeightIsTheShareInForce(t *testing.T) {
	t.Parallel()
	open := func(g *given) { g.StableService.Hash = "" }
	for what, test := range map[string]struct {
		is                *given
		asked, step, want string
	}{
		"as the step asks":                            {aRelease().AtStep(2).Paused(), "50%", "2", "50"},
		"parts of a percent":                          {aRelease().AtStep(2).stepping(2, rollout.Step{Replicas: percent(50), Weight: weight(0.5)}).Paused(), "0.5%", "2", "0.5"},
		"one pod, replaced in place, gets everything": {single(2, 1, 0).With(open).With(func(g *given) { g.Spec.Steps[1].AllowFull = true }).In(rollout.StatePaused), "50%", "2", "100"},
		"the new version alone is left":               {single(2, 1, 0).With(open).In(rollout.StatePaused), "50%", "2", "100"},
		"a step that is held before its pods":         {single(2, 0, 1), "50%", "2", "0"},
		"a step that waits for its pods": {
			aRelease().AtStep(2).Paused().Planned().With(func(g *given) { g.Status.Sluice.Step = 3 }).In(rollout.StateUpgrade), "80%", "3", "50",
		},
		"a step by what requests carry": {aRelease().AtStep(1).Paused(), rollout.TrafficMatches, "1", "0"},
		"by the number of pods": {
			replacing(2, 5, 5, 5).With(func(g *given) { g.Spec.Routing, g.Backends, g.Routes = nil, nil, nil }).In(rollout.StatePaused), "50%", "2", "0",
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			status := Plan(test.is.Seen, test.is.now).Status
			args := rollout.TemplateArguments(test.is.Spec, &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "demo"}, Status: status})
			if asked := test.is.Spec.Steps[status.Sluice.Step-1].Traffic(); asked != test.asked {
				t.Errorf("the step asks for %s, not %s", asked, test.asked)
			}
			if args[api.ArgStep] != test.step || args[api.ArgWeight] != test.want {
				t.Errorf("the arguments are step %s and weight %s, not %s and %s", args[api.ArgStep], args[api.ArgWeight], test.step, test.want)
			}
		})
	}
}
