package trafficrouting

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Seen is the observed state of the cluster for one TrafficRouting.
type Seen struct {
	Name       string
	Generation int64
	Deleting   bool
	// Finalizer: Sluice's finalizer is on the TrafficRouting.
	Finalizer bool
	// Users are the Rollouts that ask for the TrafficRouting. StaleUsers ask for it too, but do not exist or name another TrafficRouting.
	Users, StaleUsers []string
	Status            api.TrafficRoutingStatus
	// Routes are the gateway objects that the TrafficRouting names, in the order in which the executor routes them. FormerRoutes are other objects
	// that may carry its routing from before. The executor restores objects in reverse order.
	Routes, FormerRoutes []rollout.Route
	// Problems are errors in the TrafficRouting and objects that the executor could not read.
	Problems []rollout.Problem
}

// Decision is the next status and the next actions. The executor commits a status with a new intent before it takes the actions. So a Rollout that
// asks for a TrafficRouting sees that the executor is about to restore its routes.
type Decision struct {
	Status  api.TrafficRoutingStatus
	Actions []rollout.Action
	// Problem is the problem that a person must fix, or nil.
	Problem *rollout.Problem
}

// NeedsCommitFirst reports whether the executor must commit the status before the actions. It must if fields other than the message and the observed
// generation change.
func (d Decision) NeedsCommitFirst(seen Seen) bool {
	next, before := *d.Status.DeepCopy(), *seen.Status.DeepCopy()
	next.Message, before.Message = "", ""
	next.ObservedGeneration, before.ObservedGeneration = 0, 0
	return !reflect.DeepEqual(next, before)
}

// Plan decides the next actions for one TrafficRouting. It is level-triggered, and the executor may stop after any action.
//
//	Initial ──> Healthy ── a Rollout asks ──> Progressing
//	               ^                              │ no Rollout asks any more
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

// planProgressing routes every gateway object as the strategy says. It first restores objects that the TrafficRouting no longer names.
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

// pendingMessage names the gateway object that delays the routing; "" if every gateway has accepted it.
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

// routeProblem returns the first problem of a gateway object, or nil.
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

// blockingProblem returns the first problem that prevents the routing, or nil.
func (p *planner) blockingProblem() *rollout.Problem {
	for i := range p.seen.Problems {
		if problem := &p.seen.Problems[i]; !problem.Warning {
			return problem
		}
	}
	return nil
}

// planUnused restores routes that no Rollout asks for. Without such routes, it waits for a Rollout to ask.
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

// planTerminating restores all routes, even if Rollouts still ask for them, and then removes the finalizer.
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

// routesRestored restores the gateway objects, and reports whether none of them carries the routing any more.
func (p *planner) routesRestored() bool {
	p.status.AppliedGeneration = 0
	p.restoreRoutes(slices.Concat(p.seen.FormerRoutes, p.seen.Routes))
	p.recordObjects(false)
	return len(p.status.Objects) == 0
}

// restoreRoutes restores objects in reverse order. An object that others may refer to waits until the executor can read those others.
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

// recordObjects records the objects that may carry the routing. If all is set, it records every object that the TrafficRouting names.
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

// routeUnknown reports whether the executor could not read an object, so the object may carry the routing.
func (p *planner) routeUnknown(object rollout.Ref) bool {
	return slices.ContainsFunc(p.seen.Problems, func(problem rollout.Problem) bool { return problem.Unknown && problem.Route == object })
}

// unrestoredReason explains why the executor cannot restore an object.
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
