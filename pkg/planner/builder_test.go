package planner

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// given builds an observed state in words: aRelease().AtStep(2).Paused().
type given struct {
	rollout.Seen
	*rollout.Backend // the first backend
	now              time.Time
}

// aRollout is idle: its workload of ten pods runs v1 and is adopted.
func aRollout() *given {
	g := &given{now: start}
	g.Seen = rollout.Seen{
		Namespace: "shop", Name: "demo", UID: "u", Generation: 1, Finalizer: true, Editor: "kubectl",
		Spec: demoSpec(
			rollout.Step{Replicas: rollout.Amount{Value: 1}, Matches: []api.HTTPRouteMatch{{}}, Manual: true},
			rollout.Step{Replicas: rollout.Amount{Value: 50, Percent: true}, Weight: weight(50), Manual: true},
			rollout.Step{Replicas: rollout.Amount{Value: 80, Percent: true}, Weight: weight(80), Manual: true},
		),
		Workload: &rollout.Workload{
			UID: "w", Observed: true, DesiredReplicas: 10, Revision: "v1", Adopted: true, HasMarks: true, Updated: 10, Available: 10, Total: 10,
			MaxUnavailable: 2, Revisions: []rollout.Revision{{Hash: "h1", Revision: "v1", Replicas: 10, Ready: 10}},
		},
		Backends: []rollout.Backend{{StableService: &rollout.Service{UID: "s"}, Stable: selected("h1", 10)}},
	}
	g.Backend = &g.Backends[0]
	g.Spec.Routing[0].Objects = g.Spec.Routing[0].Objects[1:]
	g.replan()
	g.unrouted()
	g.Status = Plan(g.Seen, g.now).Status
	return g
}

// selected returns ready pods of one version behind a stable Service.
func selected(hash string, ready int32) *rollout.Selected {
	return &rollout.Selected{Pods: map[string]rollout.Endpoints{hash: {Ready: ready}}}
}

func (g *given) replan() *given { g.Spec.Hash = rollout.PlanHash(g.Spec); return g }

func (g *given) unrouted() *given {
	g.Routes = nil
	for _, object := range objectsOf(g.Spec) {
		route := rollout.Route{Object: object, Steps: map[int32]rollout.Rendering{}}
		for n := range g.Spec.Steps {
			route.Steps[int32(n+1)] = rollout.Rendering{Digest: fmt.Sprint("d", n+1)}
		}
		g.Routes = append(g.Routes, route)
	}
	return g
}

// objectsOf returns the gateway objects of a spec, in the order in which the executor applies a step.
func objectsOf(s rollout.Spec) (all []rollout.Ref) {
	for _, r := range s.Routing {
		all = append(all, r.Objects...)
	}
	return all
}

// aRelease is a release of v2 that is about to begin its first step.
func aRelease() *given { return aRollout().HeldAt("v2").Planned().In(rollout.StateBeforeUpgrade) }

func (g *given) HeldAt(revision string) *given {
	g.Workload.Revision, g.Workload.Held, g.Workload.Paused, g.Workload.Updated = revision, true, true, 0
	return g
}

// Planned takes the status of one plan, and asserts nothing.
func (g *given) Planned() *given { g.Status = Plan(g.Seen, g.now).Status; return g }

// In puts the machine into a state, as if a transition had just led to it.
func (g *given) In(state rollout.State) *given {
	m, c := g.Status.Sluice, g.Status.Common()
	m.TransitionSeq++
	m.Transitions = append(m.Transitions, api.Transition{Seq: m.TransitionSeq, From: m.State, To: string(state)})
	if len(m.Transitions) > api.MaxTransitions {
		m.Transitions = m.Transitions[1:]
	}
	since := metav1.NewMicroTime(g.now)
	m.State, m.Since = string(state), &since
	p := newPlanner(g.Seen, g.now)
	p.m.State = string(state)
	c.CurrentStepState, c.CurrentStepIndex, c.NextStepIndex = p.stepState(), m.Step, p.nextIndex()
	return g
}

// AtStep puts the release into a step with everything as the step wants it.
func (g *given) AtStep(n int32) *given {
	g.Status.Sluice.Step = n
	want := g.Spec.Steps[n-1].Replicas.Of(g.Workload.DesiredReplicas)
	g.Pods(want, want)
	for i := range g.Backends {
		g.Backends[i].StableService.Hash = "h1"
		g.Backends[i].CanaryService = &rollout.Service{UID: "t", Ours: true, Hash: "hc", Epoch: g.Canary.Epoch}
		g.Backends[i].CanaryEndpoints = want
	}
	g.Status.Sluice.RouteDigest = fmt.Sprint("d", n)
	for i := range g.Routes {
		g.Routes[i].Shaped = true
		for step, r := range g.Routes[i].Steps {
			r.Applied, r.Accepted = step == n, step == n
			g.Routes[i].Steps[step] = r
		}
	}
	return g.In(rollout.StateUpgrade)
}

// Pods gives the canary pods, some of them available.
func (g *given) Pods(replicas, available int32) *given {
	g.Canary = &rollout.Canary{
		UID: "c", Ours: true, Epoch: g.Status.Sluice.Epoch, Revision: g.Status.Sluice.CanaryRevision, Observed: true,
		Replicas: replicas, Updated: replicas, Available: available, Hash: "hc",
	}
	return g
}

func (g *given) Paused() *given { return g.In(rollout.StatePaused) }
func (g *given) Ready() *given  { return g.In(rollout.StateReady) }

func (g *given) Approved() *given {
	g.Status.Common().CurrentStepState = api.StepReady
	return g
}

func (g *given) Jumping(to int32) *given {
	g.Status.Common().NextStepIndex = to
	return g
}

// Finalising puts the release into finalising for a reason, with the cluster unchanged.
func (g *given) Finalising(reason api.FinaliseReason) *given {
	g.Status.Sluice.FinaliseReason = reason
	return g.In(rollout.StateFinalising)
}

func (g *given) RolledBack() *given { g.Workload.Revision = "v1"; return g }

func (g *given) Deleted() *given { g.Deleting = true; return g }

func (g *given) keepPaused() *given { g.Spec.KeepPaused = true; return g }
func (g *given) Disabled() *given   { g.Spec.Disabled = true; return g }

// Cleared removes the objects that a release creates.
func (g *given) Cleared() *given {
	g.Canary, g.CanaryService, g.CanaryEndpoints, g.StableService.Hash = nil, nil, 0, ""
	return g.unrouted()
}

// With changes the observed state in a way without a name of its own.
func (g *given) With(change func(*given)) *given { change(g); return g }

func (g *given) After(d time.Duration) *given { g.now = g.now.Add(d); return g }

// outcome contains the parts of a decision that the tables compare.
type outcome struct {
	State   rollout.State
	Step    int32
	Actions []string
	Stalled api.Reason
	Message string
	Notes   []string
}

func (g *given) outcome() outcome {
	d := Plan(g.Seen, g.now)
	o := outcome{State: rollout.State(d.Status.Sluice.State), Step: d.Status.Sluice.Step, Message: d.Status.Message}
	for _, a := range d.Actions {
		o.Actions = append(o.Actions, a.String())
	}
	for _, c := range d.Status.Conditions {
		if c.Type == api.ConditionStalled {
			o.Stalled = c.Reason
		}
	}
	for _, n := range d.KubeEvents {
		if n.Reason == "StatusEditReverted" {
			o.Notes = append(o.Notes, n.Message)
		}
	}
	return o
}
