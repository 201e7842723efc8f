package cluster

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

func TestWhatADecisionStandsOn(t *testing.T) {
	t.Parallel()
	own := []rollout.Routing{{Service: "web", CanaryService: "web-canary"}}
	shared := []rollout.Routing{{Service: "web", CanaryService: "web"}}
	both := slices.Concat(own, shared)
	in := func(state rollout.State, reason api.FinaliseReason) api.SluiceStatus {
		return api.SluiceStatus{Epoch: 1, State: string(state), FinaliseReason: reason}
	}
	base := []part{partRollout, partWorkload}
	cases := map[string]struct {
		routing []rollout.Routing
		before  api.SluiceStatus
		next    api.SluiceStatus
		action  rollout.Action
		want    []part
	}{
		"what is only shown stands on nothing": {own, in(rollout.StatePaused, ""), in(rollout.StatePaused, ""), nil, nil},
		"an approval stands on the status":     {own, in(rollout.StatePaused, ""), in(rollout.StateReady, ""), nil, nil},
		"a release that begins":                {own, in(rollout.StateIdle, ""), api.SluiceStatus{Epoch: 2, State: string(rollout.StateInitializing)}, nil, append(base, partSets, partRoutes)},
		"a release that was checked":           {own, in(rollout.StateInitializing, ""), in(rollout.StateBeforeUpgrade, ""), nil, append(base, partSets, partRoutes)},
		"a release that is turned aside":       {own, in(rollout.StatePaused, ""), in(rollout.StateFinalising, api.FinaliseRollback), nil, base},
		"a release that is turned once more":   {own, in(rollout.StateFinalising, api.FinaliseSuccess), in(rollout.StateFinalising, api.FinaliseRollback), nil, base},
		"new pods":                             {own, in(rollout.StateUpgrade, ""), in(rollout.StateUpgrade, ""), rollout.CreateCanary{}, append(base, partStableService)},
		"more new pods":                        {own, in(rollout.StateUpgrade, ""), in(rollout.StateUpgrade, ""), rollout.ScaleCanary{}, append(base, partStableService)},
		"a route to a Service of its own":      {own, in(rollout.StateUpgrade, ""), in(rollout.StateUpgrade, ""), rollout.ApplyRoute{}, append(base, partEndpoints)},
		"a route to pods of a shared Service":  {shared, in(rollout.StateUpgrade, ""), in(rollout.StateUpgrade, ""), rollout.ApplyRoute{}, append(base, partCanary)},
		"a share that is handed back":          {own, in(rollout.StateAborted, ""), in(rollout.StateAborted, ""), rollout.ApplyRoute{Step: -40}, append(base, partSets)},
		"pods in the place of others":          {own, in(rollout.StateUpgrade, ""), in(rollout.StateUpgrade, ""), rollout.ScaleWorkload{}, append(base, partSets, partCanary, partStableService, partRoutes)},
		"a route beside one of another kind":   {both, in(rollout.StateUpgrade, ""), in(rollout.StateUpgrade, ""), rollout.ApplyRoute{}, append(base, partEndpoints, partCanary)},
		"a lost canary loses its traffic":      {own, in(rollout.StateUpgrade, ""), in(rollout.StateUpgrade, ""), rollout.RestoreRoute{}, append(base, partCanary)},
		"the end takes traffic back":           {own, in(rollout.StateFinalising, ""), in(rollout.StateFinalising, ""), rollout.RestoreRoute{}, base},
		"a Service is narrowed":                {own, in(rollout.StateBeforeUpgrade, ""), in(rollout.StateBeforeUpgrade, ""), rollout.PinService{}, append(base, partSets)},
		"a Service is opened after a success":  {own, in(rollout.StateFinalising, api.FinaliseSuccess), in(rollout.StateFinalising, api.FinaliseSuccess), rollout.UnpinService{}, base},
		"a Service is opened after a rollback": {own, in(rollout.StateFinalising, api.FinaliseRollback), in(rollout.StateFinalising, api.FinaliseRollback), rollout.UnpinService{}, append(base, partSets, partCanary)},
		"the workload is let go":               {own, in(rollout.StateFinalising, ""), in(rollout.StateFinalising, ""), rollout.ResumeWorkload{}, append(base, partStableService, partRoutes)},
		"the canary goes":                      {own, in(rollout.StateFinalising, ""), in(rollout.StateFinalising, ""), rollout.DeleteCanary{}, append(base, partRoutes)},
		"its Service goes":                     {own, in(rollout.StateFinalising, ""), in(rollout.StateFinalising, ""), rollout.DeleteCanaryService{}, append(base, partRoutes)},
		"a release that has ended":             {own, in(rollout.StateFinalising, ""), in(rollout.StateIdle, ""), nil, []part{partCanary, partCanaryService, partRoutes}},
		"its Service comes":                    {own, in(rollout.StateUpgrade, ""), in(rollout.StateUpgrade, ""), rollout.CreateCanaryService{}, []part{partRollout}},
		"labels of pods":                       {own, in(rollout.StateUpgrade, ""), in(rollout.StateUpgrade, ""), rollout.LabelPods{}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &Snapshot{rollout: &api.Rollout{Status: api.RolloutStatus{Sluice: &c.before}},
				spec: rollout.Spec{Style: rollout.StyleCanary, Routing: c.routing, Workload: rollout.Ref{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}}}
			d := rollout.Decision{Status: api.RolloutStatus{Sluice: &c.next}}
			if c.action != nil {
				d.Actions = []rollout.Action{c.action}
			}
			if diff := cmp.Diff(partsOf(c.want...), s.standsOn(d)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatEndsAllStandsOnAll(t *testing.T) {
	t.Parallel()
	s := &Snapshot{rollout: &api.Rollout{}, spec: rollout.Spec{Workload: rollout.Ref{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}}}
	for _, action := range []rollout.Action{rollout.DisownWorkload{}, rollout.RemoveFinalizer{}, rollout.PointCanaryService{}} {
		d := rollout.Decision{Status: api.RolloutStatus{Sluice: &api.SluiceStatus{}}, Actions: []rollout.Action{action}}
		if diff := cmp.Diff(allParts(), s.standsOn(d)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", action, diff)
		}
	}
}
