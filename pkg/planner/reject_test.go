package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// early adds pods of the new version that the workload itself created before it was held.
func early(g *given) {
	g.Workload.Updated = 8
	g.Workload.Revisions = []rollout.Revision{{Hash: "h1", Revision: "v1", Replicas: 8, Ready: 8}, {Hash: "h2", Revision: "v2", Replicas: 2, Ready: 2}}
}

// free lets the workload's own controller roll the workload.
func free(g *given) { g.Workload.Held, g.Workload.Paused = false, false }

func TestARejectedVersionStaysOutOfTheStableService(t *testing.T) {
	const goingBack = "waiting for the workload to run its version everywhere: 8 of 10 pods are updated, 10 available"
	pinned := func(g *given) { g.Cleared(); g.StableService.Hash = "h1"; g.Status.Sluice.RouteDigest = "" }
	runPlanCases(t, map[string]planCase{
		"pods of a deleted canary are waited for": {
			aRelease().AtStep(2).RolledBack().Finalising(api.FinaliseRollback).With(pinned).With(free).With(func(g *given) { g.Pods(5, 5); g.Canary.Deleting = true }),
			outcome{State: rollout.StateFinalising, Step: 2, Message: "waiting for the pods of the canary to be gone"},
		},
		"early pods are waited for after a rollback": {
			aRelease().AtStep(2).RolledBack().Finalising(api.FinaliseRollback).With(pinned).With(free).With(early),
			outcome{State: rollout.StateFinalising, Step: 2, Message: goingBack},
		},
		"and when the Rollout is disabled after a rollback, for which the workload is let go": {
			aRelease().AtStep(2).RolledBack().Disabled().Finalising(api.FinaliseDisabled).With(pinned).With(early),
			outcome{State: rollout.StateFinalising, Step: 2, Actions: []string{"resume Deployment demo"}, Message: disabling},
		},
		"but nobody waits for an owner's pause to delete a Rollout": {
			aRelease().AtStep(2).RolledBack().Deleted().Finalising(api.FinaliseDeleting).With(pinned).With(early).With(func(g *given) {
				g.Workload.Held, g.Workload.OwnerPaused = false, true
			}),
			outcome{State: rollout.StateFinalising, Step: 2, Actions: []string{"unpin Service demo"}, Message: "Rollout is in terminating"},
		},
		"a third version after a rollback finds the Service as it is": {
			aRelease().AtStep(2).Finalising(api.FinaliseRollback).With(pinned).With(early).HeldAt("v3"),
			outcome{State: rollout.StateUpgrade, Step: 1, Actions: []string{"create canary demo-canary with 1 replicas"}, Message: "Rollout is in Progressing"},
		},
	})
}

func TestOnlyASuccessLetsPodsOutliveTheirCanary(t *testing.T) {
	gone := func(g *given) { g.CanaryService = nil; g.unrouted(); g.Status.Sluice.RouteDigest = "" }
	lost := func(g *given) { gone(g); g.Canary.Revision = "v0" }
	cases := map[string]struct {
		given *given
		want  bool
	}{
		"success":                  {aRelease().AtStep(3).Finalising(api.FinaliseSuccess).With(gone).With(func(g *given) { g.StableService.Hash = ""; free(g); g.Workload.Updated = 10 }), false},
		"rollback":                 {aRelease().AtStep(2).RolledBack().Finalising(api.FinaliseRollback).With(gone).With(free), true},
		"a third version":          {aRelease().AtStep(2).Finalising(api.FinaliseContinuous).With(gone).HeldAt("v3"), true},
		"deleted after a rollback": {aRelease().AtStep(2).RolledBack().Deleted().Finalising(api.FinaliseDeleting).With(gone), true},
		"a canary that is lost":    {aRelease().AtStep(2).With(lost), true},
		"what is left at rest":     {aRelease().AtStep(2).With(gone).In(rollout.StateIdle).With(func(g *given) { *g.Workload = *aRollout().Workload }), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want := []rollout.Action{rollout.DeleteCanary{Name: "demo-canary", Foreground: c.want}}
			if diff := cmp.Diff(want, Plan(c.given.Seen, c.given.now).Actions); diff != "" {
				t.Error(diff)
			}
		})
	}
}
