package planner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// promoting is a release of v2 that is being finalised as a success. Its canary serves, and some of the workload's ten pods of v2 are ready. The
// workload's strategy is Recreate.
func promoting(ready int32) *given {
	g := aRelease().AtStep(3).Cleared().Pods(8, 8).Finalising(api.FinaliseSuccess)
	g.Status.Sluice.RouteDigest = ""
	w := g.Workload
	w.Held, w.Paused, w.Recreate, w.MaxUnavailable = false, false, true, 0
	w.Revisions = []rollout.Revision{{Hash: "h1", Revision: "v1"}, {Hash: "h2", Revision: "v2", Replicas: 10, Ready: ready}}
	w.Updated, w.Total, w.Available = 10, 10, ready
	return g
}

// rolledNatively is a workload that its owner rolled back to v1. Its controller has created all pods of v1, some of them ready.
func (g *given) rolledNatively(ready int32) *given {
	w := g.RolledBack().Workload
	w.Revisions = []rollout.Revision{{Hash: "h1", Revision: "v1", Replicas: 10, Ready: ready}, {Hash: "h2", Revision: "v2"}}
	w.Updated, w.Available = 10, ready
	return g
}

func TestNoEndingTakesWhatServes(t *testing.T) {
	const removed = "delete canary demo-canary"
	waits := func(ready string) string {
		return "waiting for the workload to be available: " + ready + " of 10 pods are; the pods of the canary serve until then; " +
			"to go on without them: kubectl delete deployment/demo-canary -n shop"
	}
	// unrouted is a release whose Service always selects both versions.
	unrouted := func(g *given) { g.Spec.Routing, g.Routes, g.Backends = nil, nil, nil }
	cases := map[string]struct {
		given   *given
		actions []string
		message string
	}{
		"a success, without a ready pod of the workload": {promoting(0), nil, "waiting for the workload to be available: 0 of 10 pods are"},
		"a success whose owner lets all pods be missing": {promoting(0).With(func(g *given) { g.Workload.Recreate, g.Workload.MaxUnavailable = false, 10 }), nil,
			"waiting for the workload to be available: 0 of 10 pods are"},
		"a rollback, without a ready pod of the stable version": {promoting(0).Finalising(api.FinaliseRollback).rolledNatively(0), nil, waits("0")},
		"a rollback whose pods have yet to be replaced": {promoting(10).RolledBack().Finalising(api.FinaliseRollback).With(func(g *given) { g.Workload.Updated = 0 }), nil,
			"waiting for the workload to run its version everywhere: 0 of 10 pods are updated, 10 available"},
		"a rollback, with some of the stable pods":       {promoting(0).Finalising(api.FinaliseRollback).rolledNatively(9), nil, waits("9")},
		"a rollback, with all stable pods":               {promoting(0).Finalising(api.FinaliseRollback).rolledNatively(10), []string{removed}, ""},
		"a deletion, without a ready pod":                {promoting(0).Finalising(api.FinaliseDeleting).Deleted(), nil, waits("0")},
		"a deletion, with all pods":                      {promoting(10).Finalising(api.FinaliseDeleting).Deleted(), []string{removed}, ""},
		"disabling, without a ready pod":                 {promoting(0).Finalising(api.FinaliseDisabled).Disabled(), nil, waits("0")},
		"disabling a workload that its owner has paused": {promoting(0).Finalising(api.FinaliseDisabled).Disabled().With(func(g *given) { g.Workload.Paused, g.Workload.OwnerPaused = true, true }), nil, waits("0")},
		"a newer version, before the workload's controller has seen its hold": {promoting(10).HeldAt("v3").With(func(g *given) { g.Workload.Observed = false }), nil,
			"waiting for the controller of Deployment demo to see how it is to be released"},
		"a newer version, without a ready pod": {promoting(0).HeldAt("v3"), []string{"scale h1 of Deployment demo to 1", "scale h2 of Deployment demo to 0"}, ""},
		"a newer version, with some pods":      {promoting(4).HeldAt("v3"), nil, waits("4")},
		"a newer version during a rollback":    {promoting(0).Finalising(api.FinaliseRollback).rolledNatively(0).HeldAt("v3").Finalising(api.FinaliseContinuous), nil, waits("0")},
		"a newer version during a rollback, without traffic routing": {
			promoting(0).Finalising(api.FinaliseRollback).rolledNatively(0).HeldAt("v3").Finalising(api.FinaliseSuperseded).With(unrouted), nil, waits("0"),
		},
		"a newer version in a step, without traffic routing, whose stable pods it may mend": {
			promoting(0).rolledNatively(0).HeldAt("v3").Finalising(api.FinaliseContinuous).With(unrouted), []string{removed}, "",
		},
		"a rollback of one pod, which its controller takes first": {promoting(1).RolledBack().Finalising(api.FinaliseRollback).With(func(g *given) {
			w := g.Workload
			w.Recreate, w.DesiredReplicas, w.MaxUnavailable, w.Updated, w.Total = false, 1, 1, 0, 1
			w.Revisions[1].Replicas = 1
		}), nil, "waiting for the workload to run its version everywhere: 0 of 1 pods are updated, 1 available"},
		"a newer version, with all pods":                     {promoting(10).HeldAt("v3"), []string{removed}, ""},
		"a deletion after a newer version lets go of it":     {promoting(0).HeldAt("v3").Finalising(api.FinaliseDeleting).Deleted(), []string{"resume Deployment demo"}, ""},
		"a workload that is scaled to 0 has nothing to bear": {promoting(0).Finalising(api.FinaliseDeleting).Deleted().With(func(g *given) { g.Workload.DesiredReplicas, g.Workload.Updated, g.Workload.Total = 0, 0, 0 }), []string{removed}, ""},
		"a canary without a ready pod serves nobody":         {promoting(0).Pods(8, 0).Finalising(api.FinaliseDeleting).Deleted(), []string{removed}, ""},
		"a workload that is gone":                            {promoting(0).Finalising(api.FinaliseWorkloadGone).With(func(g *given) { g.Workload = nil }), []string{removed}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := c.given.outcome()
			if diff := cmp.Diff(c.actions, got.Actions); diff != "" {
				t.Error(diff)
			}
			if c.message != "" && got.Message != c.message {
				t.Errorf("message %q, want %q", got.Message, c.message)
			}
		})
	}
}

// A Service that is narrowed to unready pods would lose the serving pods of an older release.
func TestAServiceIsNotNarrowedToPodsThatAreNotReady(t *testing.T) {
	const waits = "waiting for a pod of the stable version, for only pods of other versions are ready, and serve meanwhile; if none can be ready, " +
		"give the new version to all: sluice promote demo -n shop --full"
	pin := []string{"pin Service demo to h1"}
	for name, c := range map[string]struct {
		stable, early rollout.Revision
		actions       []string
		message       string
	}{
		"a stable pod is ready":        {rollout.Revision{Replicas: 9, Ready: 1}, rollout.Revision{Replicas: 1, Ready: 1}, pin, ""},
		"only pods of another version": {rollout.Revision{Replicas: 9}, rollout.Revision{Replicas: 1, Ready: 1}, nil, waits},
		"nobody serves":                {rollout.Revision{Replicas: 9}, rollout.Revision{Replicas: 1}, pin, ""},
		"no stable pod is on its way":  {rollout.Revision{}, rollout.Revision{Replicas: 10, Ready: 10}, pin, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := aRelease().With(func(g *given) {
				c.stable.Hash, c.stable.Revision, c.early.Hash, c.early.Revision = "h1", "v1", "h2", "v2"
				g.Workload.Revisions = []rollout.Revision{c.stable, c.early}
			}).After(time.Minute)
			got := g.outcome()
			if diff := cmp.Diff(c.actions, got.Actions); diff != "" || c.message != "" && got.Message != c.message {
				t.Errorf("message %q\n%s", got.Message, diff)
			}
		})
	}
}

// A rollback from a step with only unready stable pods would take the requests from the only pods that answer them.
func TestARollbackLeavesRequestsWhereTheyAreAnswered(t *testing.T) {
	const waits = "waiting for a ready pod of the stable version: only pods of the new version are ready, and they keep their requests until then; " +
		"to take these away all the same, set spec.strategy.allowUnreachableStable: true"
	restores := []string{"restore VirtualService demo"}
	rolled := func(stable, canary int32) *given {
		return aRelease().AtStep(2).weighing(20).Pods(2, canary).RolledBack().Finalising(api.FinaliseRollback).With(func(g *given) { g.Workload.Revisions[0].Ready = stable })
	}
	for name, c := range map[string]struct {
		given   *given
		actions []string
		message string
	}{
		"no stable pod is ready":                          {rolled(0, 2), nil, waits},
		"no pod at all is ready":                          {rolled(0, 0), restores, ""},
		"a stable pod is ready":                           {rolled(1, 2), restores, ""},
		"the owner accepts it":                            {rolled(0, 2).With(func(g *given) { g.Spec.AllowUnreachable = true }), restores, ""},
		"the new version has no share":                    {rolled(0, 2).weighing(0), restores, ""},
		"the Rollout is deleted":                          {rolled(0, 2).Finalising(api.FinaliseDeleting).HeldAt("v3").Deleted(), nil, waits},
		"a newer version, which may mend the stable pods": {rolled(0, 2).Finalising(api.FinaliseContinuous).HeldAt("v3"), restores, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.given.outcome()
			if diff := cmp.Diff(c.actions, got.Actions); diff != "" || c.message != "" && got.Message != c.message {
				t.Errorf("message %q\n%s", got.Message, diff)
			}
		})
	}
}
