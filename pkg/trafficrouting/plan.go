package trafficrouting

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Seen is what a shell saw of the world for one TrafficRouting.
type Seen struct {
	Name       string
	Generation int64
	Deleting   bool
	// Finalizer: ours is on it.
	Finalizer bool
	// Users are the Rollouts that ask for it. Strays ask for it too, and do not exist or name another one.
	Users, Strays []string
	Status        api.TrafficRoutingStatus
	// Routes are the gateway objects that it names, in the order in which they are routed. Left are others that may carry its routing
	// from before. Restoring goes the other way.
	Routes, Left []rollout.Route
	// Problems hold what is wrong with it, and what could not be read.
	Problems []rollout.Problem
}

// Decision is what to do next. A status that intends something is committed before the actions are taken: what raises is intended
// first, and whoever asks for a TrafficRouting that is about to be given back sees that.
type Decision struct {
	Status  api.TrafficRoutingStatus
	Actions []rollout.Action
	// Problem is what a person must mend; nil for nothing.
	Problem *rollout.Problem
}

// Intends reports whether a decision is to be committed before its actions: more than what is only read is new in its status.
func (d Decision) Intends(seen Seen) bool {
	next, before := *d.Status.DeepCopy(), *seen.Status.DeepCopy()
	next.Message, before.Message = "", ""
	next.ObservedGeneration, before.ObservedGeneration = 0, 0
	return !reflect.DeepEqual(next, before)
}

// Forget takes the finalizers of Rollouts off that no longer ask for a TrafficRouting.
type Forget struct{ Rollouts []string }

// Raises reports that less is routed.
func (Forget) Raises() bool { return false }

func (f Forget) String() string {
	return "take the finalizers of Rollouts off that no longer name it: " + strings.Join(f.Rollouts, ", ")
}

// Plan decides what comes next for one TrafficRouting. It is level-triggered, and each of its actions may be the last one of a run.
//
//	Initial ──> Healthy ── a Rollout asks ──> Progressing
//	               ^                              │ none does any more
//	               └──────── Finalizing <─────────┘        any of them, deleted ──> Terminating
func Plan(seen Seen) Decision {
	p := &planner{seen: seen, status: *seen.Status.DeepCopy()}
	p.status.ObservedGeneration = seen.Generation
	switch {
	case len(seen.Strays) > 0:
		p.act(Forget{seen.Strays})
	case seen.Deleting:
		p.terminating()
	case !seen.Finalizer:
		p.show(api.RoutingInitial, "TrafficRouting is Initial")
		p.act(rollout.AddFinalizer{})
	case len(seen.Users) > 0:
		p.progressing()
	default:
		p.resting()
	}
	return Decision{Status: p.status, Actions: p.actions, Problem: p.shown}
}

type planner struct {
	seen    Seen
	status  api.TrafficRoutingStatus
	actions []rollout.Action
	shown   *rollout.Problem
}

func (p *planner) act(a rollout.Action) { p.actions = append(p.actions, a) }

func (p *planner) show(phase api.RoutingPhase, format string, args ...any) {
	p.status.Phase, p.status.Message = phase, fmt.Sprintf(format, args...)
}

// progressing has every gateway object route as the strategy says. One that it does not name any more is given back first.
func (p *planner) progressing() {
	asked := "asked for by " + rollouts(p.seen.Users)
	p.status.AppliedGeneration = 0
	problem := p.problem()
	if problem == nil {
		problem = p.misfit()
	}
	p.restore(p.seen.Left)
	if problem == nil {
		p.apply()
	}
	p.carry(problem == nil)
	p.shown = problem
	switch waits := p.waits(); {
	case problem != nil:
		p.show(api.RoutingProgressing, "%s; %s", asked, problem.Message)
	case len(p.actions) > 0:
		p.show(api.RoutingProgressing, "%s, being applied", asked)
	case waits != "":
		p.show(api.RoutingProgressing, "%s, %s", asked, waits)
	default:
		p.status.AppliedGeneration = p.seen.Generation
		p.show(api.RoutingProgressing, "%s, applied", asked)
	}
}

func (p *planner) apply() {
	for _, route := range p.seen.Routes {
		if r := route.Steps[Step]; !r.Applied && route.Leaving == "" {
			p.act(rollout.ApplyRoute{Object: route.Object, Step: Step, Digest: r.Digest})
		}
	}
}

// waits is what gateways have yet to accept, "" for nothing.
func (p *planner) waits() string {
	for _, route := range p.seen.Routes {
		if route.Leaving != "" {
			return fmt.Sprintf("waiting for %s to be deleted", route.Leaving)
		}
		if !route.Steps[Step].Accepted {
			return fmt.Sprintf("waiting for the gateway to accept %s", route.Object)
		}
	}
	return ""
}

// misfit is what is wrong with a gateway object; nil when nothing is.
func (p *planner) misfit() *rollout.Problem {
	for _, route := range p.seen.Routes {
		r := route.Steps[Step]
		switch {
		case route.Missing:
			return &rollout.Problem{Reason: rollout.HoldRouteMissing, Message: fmt.Sprintf("%s does not exist; create it, or correct objectRef", route.Object)}
		case r.Refused != "":
			return &rollout.Problem{Reason: rollout.HoldRouteRefused, Message: r.Refused + "; mend the object, its script or the strategy"}
		}
	}
	return nil
}

// problem is the first one that keeps it from being applied; nil when there is none.
func (p *planner) problem() *rollout.Problem {
	for i := range p.seen.Problems {
		if problem := &p.seen.Problems[i]; !problem.Advisory {
			return problem
		}
	}
	return nil
}

// resting gives back what is still routed for nobody, and else waits to be asked.
func (p *planner) resting() {
	if !p.restored() {
		p.show(api.RoutingFinalizing, "no Rollout asks for it any more, the routes are given back%s", p.unread())
		return
	}
	problem := p.problem()
	if problem == nil {
		problem = p.misfit()
	}
	if p.shown = problem; problem != nil {
		p.show(api.RoutingInitial, "%s", problem.Message)
		return
	}
	p.show(api.RoutingHealthy, "TrafficRouting is Healthy")
}

// terminating gives back what is routed, whoever asks for it, and only then lets it go.
func (p *planner) terminating() {
	if !p.restored() {
		p.show(api.RoutingTerminating, "TrafficRouting is in terminating, the routes are given back%s", p.unread())
		return
	}
	p.show(api.RoutingTerminating, "TrafficRouting is in terminating")
	if p.seen.Finalizer || len(p.seen.Users) > 0 {
		p.act(rollout.RemoveFinalizer{})
	}
}

// restored reports whether no gateway object carries the routing, and gives back the rest.
func (p *planner) restored() bool {
	p.status.AppliedGeneration = 0
	p.restore(slices.Concat(p.seen.Left, p.seen.Routes))
	p.carry(false)
	return len(p.status.Objects) == 0
}

// restore gives objects back in reverse order. What others may refer to waits for those that could not be read.
func (p *planner) restore(routes []rollout.Route) {
	unread := false
	for _, route := range slices.Backward(routes) {
		switch {
		case p.blind(route.Object):
			unread = true
		case route.Ours && !(route.Backs && unread):
			p.act(rollout.RestoreRoute{Object: route.Object, Backs: route.Backs})
		}
	}
}

// carry notes which objects may carry the routing: with all, every one that it names.
func (p *planner) carry(all bool) {
	var carrying []api.ObjectRef
	note := func(route rollout.Route, wanted bool) {
		o := api.ObjectRef{APIVersion: route.Object.APIVersion, Kind: route.Object.Kind, Name: route.Object.Name}
		noted := slices.Contains(p.seen.Status.Objects, o)
		if (wanted || route.Ours || route.Leaving != "" || noted && p.blind(route.Object)) && !slices.Contains(carrying, o) {
			carrying = append(carrying, o)
		}
	}
	for _, route := range p.seen.Routes {
		note(route, all)
	}
	for _, route := range p.seen.Left {
		note(route, false)
	}
	p.status.Objects = carrying
}

// blind reports whether an object could not be read, so that it may carry the routing.
func (p *planner) blind(object rollout.Ref) bool {
	return slices.ContainsFunc(p.seen.Problems, func(problem rollout.Problem) bool { return problem.Blind && problem.Route == object })
}

// unread says why something cannot be given back.
func (p *planner) unread() string {
	if problem := p.problem(); problem != nil {
		p.shown = problem
		return "; " + problem.Message
	}
	return ""
}

func rollouts(names []string) string {
	if len(names) == 1 {
		return "Rollout " + names[0]
	}
	return "Rollouts " + strings.Join(names, ", ")
}
