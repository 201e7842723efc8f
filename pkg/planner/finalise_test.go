package planner

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// settle plays all other actors until the machine is idle, and returns its actions in order.
func (g *given) settle() []string {
	all, settles := g.walk()
	var actions []string
	for _, a := range all {
		actions = append(actions, a.String())
	}
	if !settles {
		actions = append(actions, "does not settle")
	}
	return actions
}

// walk is settle with the actions themselves, and reports whether the machine becomes idle.
func (g *given) walk() (actions []rollout.Action, settles bool) {
	for range 60 {
		d := Plan(g.Seen, g.now)
		same := sameStatus(&g.Status, &d.Status)
		g.Status = d.Status
		for _, a := range d.Actions {
			actions = append(actions, a)
			g.take(a)
		}
		switch {
		case len(d.Actions) > 0 || !same:
		case !d.WakeAt.IsZero():
			g.now = d.WakeAt
		default:
			return actions, true
		}
	}
	return actions, false
}

// take carries out an action with all its immediate effects.
func (g *given) take(a rollout.Action) {
	switch a := a.(type) {
	case rollout.AddFinalizer:
		g.Finalizer = true
	case rollout.AdoptWorkload:
		g.Workload.Adopted, g.Workload.HasMarks = true, true
	case rollout.DisownWorkload:
		g.Workload.Adopted, g.Workload.HasMarks = false, false
	case rollout.HoldWorkload:
		g.HeldAt(g.Workload.Revision)
	case rollout.ResumeWorkload:
		w := g.Workload
		w.Held, w.TakenOver, w.Paused, w.OwnerPaused, w.Updated = false, false, a.Paused, a.Paused, w.DesiredReplicas
		w.Revisions = []rollout.Revision{{Hash: "h" + w.Revision[1:], Revision: w.Revision, Replicas: w.DesiredReplicas, Ready: w.DesiredReplicas}}
	case rollout.CreateCanary:
		g.Pods(a.Replicas, a.Replicas)
		g.Canary.Revision = a.Revision
	case rollout.ScaleCanary:
		g.Pods(a.Replicas, a.Replicas)
		g.Canary.Revision, g.CanaryEndpoints = CanaryID("v2", g.Spec.PatchLabels, g.Spec.PatchAnnotations), a.Replicas
	case rollout.DeleteCanary:
		g.Canary = nil
	case rollout.PinService:
		g.backend(a.Name).StableService.Hash = a.Hash
	case rollout.UnpinService:
		g.backend(a.Name).StableService.Hash = ""
	case rollout.CreateCanaryService:
		b := g.backend(a.Name)
		b.CanaryService, b.CanaryEndpoints = &rollout.Service{Ours: true, Hash: a.Hash}, g.Canary.Available
	case rollout.DeleteCanaryService:
		g.backend(a.Name).CanaryService = nil
	case rollout.ApplyRoute:
		g.route(a.Object, a.Step)
	case rollout.RestoreRoute:
		g.route(a.Object, 0)
	case rollout.ClearRoute:
		g.Routes[0].HasChildren = false
	case rollout.RemoveFinalizer:
		g.Finalizer = false
	}
}

// backend returns the backend with a Service.
func (g *given) backend(service string) *rollout.Backend {
	return &g.Backends[(&model{spec: g.Spec}).entry(service)]
}

// route routes a gateway object as a step wants, 0 for no step.
func (g *given) route(object rollout.Ref, step int32) {
	for i := range g.Routes {
		r := &g.Routes[i]
		if r.Object != object {
			continue
		}
		r.Shaped = step != 0
		for n, rendering := range r.Steps {
			rendering.Applied, rendering.Accepted = n == step, n == step
			r.Steps[n] = rendering
		}
	}
}

func (g *given) condition(kind api.ConditionType) *api.Condition {
	for i := range g.Status.Conditions {
		if g.Status.Conditions[i].Type == kind {
			return &g.Status.Conditions[i]
		}
	}
	return nil
}

func TestEveryWayOutCleansUpInItsOrder(t *testing.T) {
	cases := map[string]struct {
		given *given
		want  []string
		phase api.Phase
	}{
		"success": {aRelease().AtStep(3).Paused().Approved(), []string{
			"unpin Service demo", "restore VirtualService demo", "delete Service demo-canary", "resume Deployment demo", "delete canary demo-canary",
		}, api.PhaseHealthy},
		"rollback": {aRelease().AtStep(2).Paused().RolledBack(), []string{
			"restore VirtualService demo", "resume Deployment demo", "delete canary demo-canary", "unpin Service demo", "delete Service demo-canary",
		}, api.PhaseHealthy},
		"disabled": {aRelease().AtStep(2).Paused().Disabled(), []string{
			"unpin Service demo", "restore VirtualService demo", "delete Service demo-canary", "resume Deployment demo", "delete canary demo-canary", "disown Deployment demo",
		}, api.PhaseDisabled},
		"deleted": {aRelease().AtStep(2).Paused().Deleted(), []string{
			"unpin Service demo", "restore VirtualService demo", "delete Service demo-canary", "resume Deployment demo", "delete canary demo-canary", "disown Deployment demo", "remove finalizer",
		}, api.PhaseTerminating},
		"deleted with a newer version held": {aRelease().AtStep(2).Paused().Deleted().HeldAt("v3"), []string{
			"restore VirtualService demo", "delete canary demo-canary", "unpin Service demo", "delete Service demo-canary", "resume Deployment demo", "disown Deployment demo", "remove finalizer",
		}, api.PhaseTerminating},
		"deleted and kept paused": {aRelease().AtStep(2).Paused().Deleted().keepPaused(), []string{
			"restore VirtualService demo", "delete canary demo-canary", "unpin Service demo", "delete Service demo-canary",
			"release Deployment demo, paused", "disown Deployment demo", "remove finalizer",
		}, api.PhaseTerminating},
		"deleted and kept paused in place": {replacing(2, 5, 5, 5).Deleted().keepPaused(), []string{
			"unpin Service demo", "release Deployment demo, paused", "disown Deployment demo", "remove finalizer",
		}, api.PhaseTerminating},
		"deleted and kept paused after a rollback": {aRelease().AtStep(2).Paused().Deleted().RolledBack().keepPaused(), []string{
			"restore VirtualService demo", "delete canary demo-canary", "resume Deployment demo", "unpin Service demo", "delete Service demo-canary", "disown Deployment demo", "remove finalizer",
		}, api.PhaseTerminating},
		"deleted and kept paused before the release of what is taken back was committed": {aRollout().Deleted().keepPaused().With(func(g *given) {
			g.Status.Sluice.StableRevision, g.StableService.Hash = "", "h1"
			g.Workload.Held, g.Workload.Paused, g.Workload.Updated = true, true, 9
			g.Workload.Revisions = append(g.Workload.Revisions, rollout.Revision{Hash: "h2", Revision: "v2", Replicas: 1, Ready: 1})
		}), []string{"resume Deployment demo", "unpin Service demo", "disown Deployment demo", "remove finalizer"}, api.PhaseTerminating},
		"deleted at rest": {aRollout().Deleted().keepPaused(), []string{"disown Deployment demo", "remove finalizer"}, api.PhaseTerminating},
		"the workload is gone": {aRelease().AtStep(2).Paused().With(func(g *given) { g.Workload = nil }), []string{
			"restore VirtualService demo", "delete canary demo-canary", "unpin Service demo", "delete Service demo-canary",
		}, api.PhaseInitial},
		"a third version, before the success is carried out": {aRelease().AtStep(3).Finalising(api.FinaliseSuccess).HeldAt("v3"), []string{
			"unpin Service demo", "restore VirtualService demo", "delete Service demo-canary", "delete canary demo-canary",
			"pin Service demo to h1", "create canary demo-canary with 1 replicas", "create Service demo-canary selecting hc", "route step 1 on VirtualService demo",
		}, api.PhaseProgressing},
		"a rollback while the success is carried out": {aRelease().AtStep(3).Cleared().Finalising(api.FinaliseSuccess).RolledBack(), []string{
			"resume Deployment demo",
		}, api.PhaseHealthy},
		"what a lost status leaves behind": {aRelease().AtStep(2).With(func(g *given) { g.Status = api.RolloutStatus{}; *g.Workload = *aRollout().Workload }), []string{
			"restore VirtualService demo", "delete canary demo-canary", "unpin Service demo", "delete Service demo-canary",
		}, api.PhaseHealthy},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.given.settle()); diff != "" {
				t.Error(diff)
			}
			if c.given.Status.Phase != c.phase {
				t.Errorf("phase %s, want %s: %s", c.given.Status.Phase, c.phase, c.given.Status.Message)
			}
		})
	}
}

// A workload that the API server does not find for a moment loses only its steps. To release it would promote a version without all its approvals.
func TestAWorkloadThatWasMissingForAMomentStartsOver(t *testing.T) {
	missing := func() *given {
		g := aRelease().AtStep(2).Paused()
		workload := g.Workload
		return g.With(func(g *given) { g.Workload = nil }).Planned().With(func(g *given) { g.Workload = workload })
	}
	for name, c := range map[string]struct {
		given *given
		want  []string
		epoch int64
	}{
		"as it was": {missing(), []string{
			"restore VirtualService demo", "delete canary demo-canary", "delete Service demo-canary",
			"create canary demo-canary with 1 replicas", "create Service demo-canary selecting hc", "route step 1 on VirtualService demo",
		}, 2},
		"rolled back meanwhile": {missing().RolledBack(), []string{
			"restore VirtualService demo", "resume Deployment demo", "delete canary demo-canary", "unpin Service demo", "delete Service demo-canary",
		}, 1},
		"and the Rollout is disabled": {missing().Disabled(), []string{
			"unpin Service demo", "restore VirtualService demo", "delete Service demo-canary", "resume Deployment demo", "delete canary demo-canary", "disown Deployment demo",
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.given.settle()); diff != "" {
				t.Error(diff)
			}
			if got := c.given.Status.Sluice.Epoch; got != c.epoch {
				t.Errorf("it ends in epoch %d, want %d", got, c.epoch)
			}
		})
	}
}

func TestARollbackWaitsUntilNoEarlyPodIsLeft(t *testing.T) {
	g := aRelease().Cleared().RolledBack().Finalising(api.FinaliseRollback).With(func(g *given) {
		g.Workload.Held, g.Workload.Paused, g.Workload.Updated = false, false, 8
		g.Workload.Revisions = []rollout.Revision{{Hash: "h1", Revision: "v1", Replicas: 8, Ready: 8}, {Hash: "h2", Revision: "v2", Replicas: 2, Ready: 2}}
	})
	want := outcome{State: rollout.StateFinalising, Step: 1, Message: "waiting for the workload to run its version everywhere: 8 of 10 pods are updated, 10 available"}
	if diff := cmp.Diff(want, g.outcome()); diff != "" {
		t.Error(diff)
	}
}

func TestConditionsTellHowAReleaseEnded(t *testing.T) {
	cases := map[string]struct {
		given     *given
		during    api.Reason
		message   string
		succeeded corev1.ConditionStatus
		end       string
	}{
		"success": {
			aRelease().AtStep(3).Paused().Approved(), api.ReasonFinalising, "Rollout has been completed and some closing work is being done",
			corev1.ConditionTrue, "Rollout progressing has been completed",
		},
		"rollback": {
			aRelease().AtStep(2).Paused().RolledBack(), api.ReasonCancelling, canceling,
			corev1.ConditionFalse, "Rollout progressing has been canceled",
		},
		"the workload is gone": {
			aRelease().AtStep(2).Paused().With(func(g *given) { g.Workload = nil }), api.ReasonCancelling, "the workload was deleted during its release",
			corev1.ConditionFalse, "Rollout progressing has been canceled",
		},
		"disabled": {
			aRelease().AtStep(2).Paused().Disabled(), api.ReasonCancelling, disabling,
			corev1.ConditionFalse, "Rollout progressing has been canceled",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := c.given.Planned().condition(api.ConditionProgressing)
			if p.Status != corev1.ConditionTrue || p.Reason != c.during || p.Message != c.message {
				t.Errorf("during: %+v", p)
			}
			if c.given.condition(api.ConditionSucceeded) != nil {
				t.Error("a release under way has the condition Succeeded")
			}
			c.given.settle()
			p, s := c.given.condition(api.ConditionProgressing), c.given.condition(api.ConditionSucceeded)
			if p.Status != corev1.ConditionFalse || p.Reason != api.ReasonCompleted || p.Message != c.end || s == nil || s.Status != c.succeeded {
				t.Errorf("at the end: %+v, %+v", p, s)
			}
		})
	}
}

func TestStepStateWhileAReleaseIsCalledOff(t *testing.T) {
	cases := map[string]struct {
		given *given
		want  api.StepState
	}{
		"a paused step":                 {aRelease().AtStep(2).Paused().RolledBack(), api.StepPaused},
		"an approved step is no longer": {aRelease().AtStep(2).Paused().Approved().RolledBack(), api.StepPaused},
		"a step in its upgrade":         {aRelease().AtStep(2).RolledBack(), api.StepUpgrade},
		"a second reason":               {aRelease().AtStep(2).RolledBack().Finalising(api.FinaliseRollback).Deleted(), api.StepUpgrade},
		"a success":                     {aRelease().AtStep(3).Paused().Approved(), api.StepCompleted},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := c.given.Planned().Status
			if got.CanaryStatus.CurrentStepState != c.want || got.CurrentStepState != c.want {
				t.Errorf("got %s and %s, want %s", got.CanaryStatus.CurrentStepState, got.CurrentStepState, c.want)
			}
			d := Plan(c.given.Seen, c.given.now)
			if len(d.KubeEvents) != 0 {
				t.Errorf("planning again takes something back: %v", d.KubeEvents)
			}
		})
	}
}

// A walk with more transitions than the outbox holds stops in between, and the next run continues at once.
func TestALongWalkLosesNoTransition(t *testing.T) {
	g := aRelease().AtStep(1).With(func(g *given) {
		for i := range g.Spec.Steps {
			g.Spec.Steps[i].Replicas, g.Spec.Steps[i].Manual = rollout.Amount{Value: 1}, false
			for n := range g.Routes[0].Steps {
				g.Routes[0].Steps[n] = rollout.Rendering{Applied: true, Accepted: true}
			}
		}
	}).replanned()
	before := g.Status.Sluice.TransitionSeq
	d := Plan(g.Seen, g.now)
	if made := d.Status.Sluice.TransitionSeq - before; made != api.MaxTransitions-maxRemarks {
		t.Fatalf("%d transitions were made", made)
	}
	if !d.WakeAt.Equal(g.now) {
		t.Errorf("the walk goes on at %s, want at once", d.WakeAt)
	}
	if g.settle(); g.Status.Phase != api.PhaseHealthy {
		t.Errorf("the walk ended in %s: %s", g.Status.Phase, g.Status.Message)
	}
}

func TestTheFirstDeploymentIsNoRelease(t *testing.T) {
	g := aRollout().With(func(g *given) {
		g.Status = api.RolloutStatus{}
		g.Workload.Revisions, g.Workload.Updated, g.Workload.Available, g.Workload.Adopted = nil, 0, 0, false
	})
	if diff := cmp.Diff([]string{"adopt Deployment demo"}, g.settle()); diff != "" {
		t.Error(diff)
	}
	c := g.Status.CanaryStatus
	if g.Status.Phase != api.PhaseHealthy || c.CurrentStepState != api.StepCompleted || c.CurrentStepIndex != 3 || c.NextStepIndex != api.NoNextStep {
		t.Errorf("a new Rollout shows as %s %+v", g.Status.Phase, c)
	}
}

func TestTimesMoveOnlyWithWhatTheyDate(t *testing.T) {
	for name, g := range map[string]*given{
		"at rest": aRollout(), "in a pause": aRelease().AtStep(2).Paused(), "held": aRollout().With(func(g *given) { g.Workload = nil }),
		"while pods come up": aRelease().AtStep(2).With(func(g *given) { g.Pods(5, 2) }),
	} {
		t.Run(name, func(t *testing.T) {
			first := g.Planned().Status
			second := g.After(time.Hour).Planned().Status
			if diff := cmp.Diff(first, second); diff != "" {
				t.Error(diff)
			}
		})
	}
}
