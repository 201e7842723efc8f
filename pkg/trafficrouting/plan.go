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
	Users, StaleUsers []string
	Status            api.TrafficRoutingStatus
	// Routes are the gateway objects that it names, in the order in which they are routed. Left are others that may carry its routing
	// from before. Restoring goes the other way.
	Routes, FormerRoutes []rollout.Route
	// Problems hold the problems of the TrafficRouting, and the failed reads.
	Problems []rollout.Problem
}

// Decision is the next status and actions. The executor commits a status with an intent before it takes the actions: it intends each raise first,
// and a Rollout that claims a TrafficRouting sees that its routes are about to be restored.
type Decision struct {
	Status  api.TrafficRoutingStatus
	Actions []rollout.Action
	// Problem is what a person must mend; nil for nothing.
	Problem *rollout.Problem
}

// NeedsCommitFirst reports whether the executor commits a decision before its actions: its status has news other than fields that are only read.
func (d Decision) NeedsCommitFirst(seen Seen) bool {
	next, before := *d.Status.DeepCopy(), *seen.Status.DeepCopy()
	next.Message, before.Message = "", ""
	next.ObservedGeneration, before.ObservedGeneration = 0, 0
	return !reflect.DeepEqual(next, before)
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
	case len(seen.StaleUsers) > 0:
		p.addAction(rollout.ForgetRollouts{Rollouts: seen.StaleUsers})
	case seen.Deleting:
		p.planTerminating()
	case !seen.Finalizer:
		p.setPhase(api.RoutingInitial, "TrafficRouting is Initial")
		p.addAction(rollout.AddFinalizer{})
	case len(seen.Users) > 0:
		p.planProgressing()
	default:
		p.planUnused()
	}
	return Decision{Status: p.status, Actions: p.actions, Problem: p.shown}
}

type planner struct {
	seen    Seen
	status  api.TrafficRoutingStatus
	actions []rollout.Action
	shown   *rollout.Problem
}

func (p *planner) addAction(a rollout.Action) { p.actions = append(p.actions, a) }

func (p *planner) setPhase(phase api.RoutingPhase, format string, args ...any) {
	p.status.Phase, p.status.Message = phase, fmt.Sprintf(format, args...)
}

// planProgressing has every gateway object route as the strategy says. One that it does not name any more is given back first.
func (p *planner) planProgressing() {
	asked := "asked for by " + rolloutList(p.seen.Users)
	p.status.AppliedGeneration = 0
	problem := p.blockingProblem()
	if problem == nil {
		problem = p.routeProblem()
	}
	p.restoreRoutes(p.seen.FormerRoutes)
	if problem == nil {
		p.applyRoutes()
	}
	p.recordObjects(problem == nil)
	p.shown = problem
	switch waits := p.pendingMessage(); {
	case problem != nil:
		p.setPhase(api.RoutingProgressing, "%s; %s", asked, problem.Message)
	case len(p.actions) > 0:
		p.setPhase(api.RoutingProgressing, "%s, being applied", asked)
	case waits != "":
		p.setPhase(api.RoutingProgressing, "%s, %s", asked, waits)
	default:
		p.status.AppliedGeneration = p.seen.Generation
		p.setPhase(api.RoutingProgressing, "%s, applied", asked)
	}
}

func (p *planner) applyRoutes() {
	for _, route := range p.seen.Routes {
		if r := route.Steps[Step]; !r.Applied && route.DeletingChild == "" {
			p.addAction(rollout.ApplyRoute{Object: route.Object, Step: Step, Digest: r.Digest})
		}
	}
}

// pendingMessage is what gateways have yet to accept, "" for nothing.
func (p *planner) pendingMessage() string {
	for _, route := range p.seen.Routes {
		if route.DeletingChild != "" {
			return fmt.Sprintf("waiting for %s to be deleted", route.DeletingChild)
		}
		if !route.Steps[Step].Accepted {
			return fmt.Sprintf("waiting for the gateway to accept %s", route.Object)
		}
	}
	return ""
}

// routeProblem is the problem of a gateway object; nil without one.
func (p *planner) routeProblem() *rollout.Problem {
	for _, route := range p.seen.Routes {
		r := route.Steps[Step]
		switch {
		case route.Missing:
			return &rollout.Problem{Reason: rollout.ReasonRouteMissing, Message: fmt.Sprintf("%s does not exist; create it, or correct objectRef", route.Object)}
		case r.Refused != "":
			return &rollout.Problem{Reason: rollout.ReasonRouteUnsupported, Message: r.Refused + "; mend the object, its script or the strategy"}
		}
	}
	return nil
}

// blockingProblem is the first problem that keeps it from being applied; nil without one.
func (p *planner) blockingProblem() *rollout.Problem {
	for i := range p.seen.Problems {
		if problem := &p.seen.Problems[i]; !problem.Warning {
			return problem
		}
	}
	return nil
}

// planUnused restores the routes that no Rollout claims any more, and otherwise waits for a claim.
func (p *planner) planUnused() {
	if !p.routesRestored() {
		p.setPhase(api.RoutingFinalizing, "no Rollout asks for it any more, the executor restores the routes%s", p.unrestoredReason())
		return
	}
	problem := p.blockingProblem()
	if problem == nil {
		problem = p.routeProblem()
	}
	if p.shown = problem; problem != nil {
		p.setPhase(api.RoutingInitial, "%s", problem.Message)
		return
	}
	p.setPhase(api.RoutingHealthy, "TrafficRouting is Healthy")
}

// planTerminating restores the routes regardless of claims, and removes the finalizer after that.
func (p *planner) planTerminating() {
	if !p.routesRestored() {
		p.setPhase(api.RoutingTerminating, "TrafficRouting is in terminating, the executor restores the routes%s", p.unrestoredReason())
		return
	}
	p.setPhase(api.RoutingTerminating, "TrafficRouting is in terminating")
	if p.seen.Finalizer || len(p.seen.Users) > 0 {
		p.addAction(rollout.RemoveFinalizer{})
	}
}

// routesRestored reports whether no gateway object carries the routing, and gives back the rest.
func (p *planner) routesRestored() bool {
	p.status.AppliedGeneration = 0
	p.restoreRoutes(slices.Concat(p.seen.FormerRoutes, p.seen.Routes))
	p.recordObjects(false)
	return len(p.status.Objects) == 0
}

// restoreRoutes restores objects in reverse order. An object that others may refer to waits for the objects that could not be read.
func (p *planner) restoreRoutes(routes []rollout.Route) {
	unread := false
	for _, route := range slices.Backward(routes) {
		switch {
		case p.routeUnknown(route.Object):
			unread = true
		case route.Shaped && !(route.Referenced && unread):
			p.addAction(rollout.RestoreRoute{Object: route.Object, Referenced: route.Referenced})
		}
	}
}

// recordObjects notes which objects may carry the routing: with all, every one that it names.
func (p *planner) recordObjects(all bool) {
	var carrying []api.ObjectRef
	note := func(route rollout.Route, wanted bool) {
		o := api.ObjectRef{APIVersion: route.Object.APIVersion, Kind: route.Object.Kind, Name: route.Object.Name}
		noted := slices.Contains(p.seen.Status.Objects, o)
		if (wanted || route.Shaped || route.DeletingChild != "" || noted && p.routeUnknown(route.Object)) && !slices.Contains(carrying, o) {
			carrying = append(carrying, o)
		}
	}
	for _, route := range p.seen.Routes {
		note(route, all)
	}
	for _, route := range p.seen.FormerRoutes {
		note(route, false)
	}
	p.status.Objects = carrying
}

// routeUnknown reports whether an object could not be read, so that it may carry the routing.
func (p *planner) routeUnknown(object rollout.Ref) bool {
	return slices.ContainsFunc(p.seen.Problems, func(problem rollout.Problem) bool { return problem.Unknown && problem.Route == object })
}

// unrestoredReason says why something cannot be given back.
func (p *planner) unrestoredReason() string {
	if problem := p.blockingProblem(); problem != nil {
		p.shown = problem
		return "; " + problem.Message
	}
	return ""
}

func rolloutList(names []string) string {
	if len(names) == 1 {
		return "Rollout " + names[0]
	}
	return "Rollouts " + strings.Join(names, ", ")
}
