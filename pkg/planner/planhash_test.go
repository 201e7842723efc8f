package planner

import (
	"slices"
	"sluice.dev/sluice/pkg/rollout"
	"testing"
	"time"
)

func TestPlanHashLeavesOutWhatMayChangeAtAnyTime(t *testing.T) {
	base := demoSpec(rollout.Step{Replicas: rollout.Amount{Value: 1}, Manual: true})
	cases := map[string]struct {
		change func(*rollout.Spec)
		same   bool
	}{
		"a pause": {func(s *rollout.Spec) { s.Steps[0].Manual, s.Steps[0].Pause = false, time.Minute }, true},
		"an analysis": {func(s *rollout.Spec) {
			s.Steps[0].Analysis, s.ReleaseAnalysis = &rollout.Analysis{}, &rollout.Analysis{}
		}, true},
		"a failure threshold": {func(s *rollout.Spec) { s.FailureThreshold = rollout.Amount{Value: 1} }, true},
		"a paused Rollout":    {func(s *rollout.Spec) { s.Paused = true }, true},
		"replicas":            {func(s *rollout.Spec) { s.Steps[0].Replicas.Value = 2 }, false},
		"traffic":             {func(s *rollout.Spec) { s.Steps[0].Weight = weight(1) }, false},
		"the labels":          {func(s *rollout.Spec) { s.PatchLabels = map[string]string{"a": "b"} }, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			changed := base
			changed.Steps = slices.Clone(base.Steps)
			c.change(&changed)
			if same := rollout.PlanHash(changed) == base.Hash; same != c.same {
				t.Errorf("the hash stays the same: %v, want %v", same, c.same)
			}
		})
	}
}
