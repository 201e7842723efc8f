package planner

import (
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

func TestWhatStablePodsMayLoseIsToldAsLongAsTheyServe(t *testing.T) {
	t.Parallel()
	risk := func(g *given) {
		g.AtRisk = &rollout.Problem{Reason: rollout.ReasonNeedGone, Message: "ConfigMap web-1 is gone"}
	}
	for what, test := range map[string]struct {
		is   *given
		want bool
	}{
		"in a step":                  {aRelease().AtStep(2).Paused().With(risk), true},
		"after an abort":             {aRelease().AtStep(2).In(rollout.StateAborted).With(risk), true},
		"nothing is at risk":         {aRelease().AtStep(2).Paused(), false},
		"at rest":                    {aRollout().With(risk), false},
		"no stable pod is left":      {replacing(2, 10, 10, 0).With(risk), false},
		"the workload is gone":       {aRelease().AtStep(2).Paused().With(risk).With(func(g *given) { g.Workload = nil }), false},
		"what was at risk is so not": {aRelease().AtStep(2).Paused().With(risk).Planned().With(func(g *given) { g.AtRisk = nil }), false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := Plan(test.is.Seen, test.is.now)
			test.is.Status = d.Status
			c := test.is.condition(api.ConditionStableAtRisk)
			if got := c != nil; got != test.want {
				t.Fatalf("it is told: %t, not %t", got, test.want)
			}
			noted := false
			for _, n := range d.KubeEvents {
				noted = noted || n.Warning && n.Reason == string(rollout.ReasonNeedGone)
			}
			if noted != test.want {
				t.Errorf("an Event tells it: %t, not %t", noted, test.want)
			}
			if held := test.is.condition(api.ConditionStalled); test.want && held != nil {
				t.Errorf("it holds the release: %s", held.Message)
			}
		})
	}
}

func TestWhatMakesTheVersionsDifferIsToldDuringARelease(t *testing.T) {
	t.Parallel()
	uncovered := func(g *given) {
		g.Uncovered = &rollout.Problem{Reason: rollout.ReasonPolicyOfStable, Message: "AuthorizationPolicy web names Service web"}
		g.Torn = &rollout.Problem{Reason: rollout.ReasonStickySessions, Message: "consistentHash of DestinationRule web keeps users with one pod"}
	}
	for what, test := range map[string]struct {
		is   *given
		want bool
	}{
		"in a step":            {aRelease().AtStep(2).Paused().With(uncovered), true},
		"no policy does so":    {aRelease().AtStep(2).Paused(), false},
		"at rest":              {aRollout().With(uncovered), false},
		"once a policy covers": {aRelease().AtStep(2).Paused().With(uncovered).Planned().With(func(g *given) { g.Uncovered, g.Torn = nil, nil }), false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			test.is.Status = Plan(test.is.Seen, test.is.now).Status
			for _, kind := range []api.ConditionType{api.ConditionCanaryUncovered, api.ConditionSessionsTorn} {
				if got := test.is.condition(kind) != nil; got != test.want {
					t.Errorf("%s is told: %t, not %t", kind, got, test.want)
				}
			}
			if held := test.is.condition(api.ConditionStalled); test.want && held != nil {
				t.Errorf("it holds the release: %s", held.Message)
			}
		})
	}
}
