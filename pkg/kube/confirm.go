package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Confirm reads live what a decision stands on and the snapshot has from a watch only. It reports whether any of that had changed:
// then the snapshot shows how it is, nothing of the decision may be carried out, and it is to be decided again.
//
// A write is refused by the API server if its own object has changed. Confirm is for the others: a route is raised because pods
// are ready, and pods go because no route leads to them.
func (c *Client) Confirm(ctx context.Context, s *Snapshot, d rollout.Decision) (moved bool, err error) {
	live := s.lives()
	if shut(s.sure, time.Now()) { // another executor may have gone on meanwhile
		live[partRollout] = false
	}
	doubtful := s.standsOn(d).without(live)
	if d.CommitFirst && !apiequality.Semantic.DeepEqual(s.rollout.Status, d.Status) {
		doubtful[partRollout] = false // the commit is refused if it has changed
	}
	if doubtful.empty() {
		return false, nil
	}
	before, problems, began := s.prints(doubtful), len(s.problems), time.Now()
	narrows := slices.ContainsFunc(d.Actions, func(a rollout.Action) bool { _, pins := a.(rollout.PinService); return pins })
	first := doubtful[partStableEndpoints] && !narrows && !s.stableEndpointsRead()
	o := &observation{client: c, snapshot: s, namespace: s.rollout.Namespace, source: fromServer, wanted: doubtful}
	if doubtful[partRollout] {
		seen := s.rollout
		if err := o.readRollout(ctx, o.named(seen.Name)); err != nil {
			s.rollout = seen
			return false, onRollout("confirm", seen, err)
		}
		if print(s.rollout) != print(seen) {
			return true, c.Again(ctx, s)
		}
	}
	if err := errors.Join(o.readParts(ctx), o.readPolicies(ctx)); err != nil {
		return false, fmt.Errorf("confirm what was seen of Rollout %s/%s: %w", s.rollout.Namespace, s.rollout.Name, err)
	}
	if doubtful[partRollout] {
		s.sure = began
	}
	after := s.prints(doubtful)
	if first { // the decision was made without these slices
		after[partStableEndpoints] = before[partStableEndpoints]
	}
	moved = after != before || len(s.problems) != problems
	if moved || first {
		s.look()
	}
	return moved, nil
}

// standsOn are the parts of the world that must be as they were seen for a decision to be right. Nothing but the status stands
// on what is only shown.
func (s *Snapshot) standsOn(d rollout.Decision) partSet {
	on := s.turnStandsOn(d)
	for _, action := range d.Actions {
		on = on.and(s.actionStandsOn(action, d))
	}
	if s.object.there() && s.object.rested != nil && (len(d.Actions) > 0 || on[partWorkload]) { // of which only its last state is known
		on[partSets] = true
	}
	return on
}

// turnStandsOn is about transitions: a release that begins or gets through what is checked before it, and one that is turned aside.
func (s *Snapshot) turnStandsOn(d rollout.Decision) partSet {
	var epoch int64
	var reason string
	if m := s.rollout.Status.Sluice; m != nil {
		epoch, reason = m.Epoch, string(m.FinaliseReason)
	}
	switch next := d.Status.Sluice; {
	case next.Epoch != epoch, s.state() == rollout.StateInitializing && next.State != string(rollout.StateInitializing):
		return partsOf(partRollout, partWorkload, partSets, partStableEndpoints, partRoutes)
	case rollout.State(next.State) == rollout.StateFinalising && (s.state() != rollout.StateFinalising || string(next.FinaliseReason) != reason):
		return partsOf(partRollout, partWorkload)
	case rollout.State(next.State) == rollout.StateIdle && s.state() == rollout.StateFinalising: // nothing of the release may be left
		return partsOf(partCanary, partCanaryService, partRoutes)
	}
	return partSet{}
}

// actionStandsOn is the table of what an action stands on, besides the object that it writes.
func (s *Snapshot) actionStandsOn(action rollout.Action, d rollout.Decision) partSet {
	base := partsOf(partRollout, partWorkload)
	switch a := action.(type) {
	case rollout.AddFinalizer, rollout.LabelPods:
		return partSet{} // they give nothing and take nothing
	case rollout.CreateCanaryService, rollout.PrepareRoute: // to which no route leads yet
		return partsOf(partRollout)
	case rollout.AdoptWorkload, rollout.HoldWorkload:
		return base
	case rollout.PinService: // to stable pods that must be there; no pod of another workload may lose its requests
		return base.and(partsOf(partSets, partStableEndpoints))
	case rollout.CreateCanary, rollout.ScaleCanary: // whose pods the stable Service must not select
		return base.and(partsOf(partStableService))
	case rollout.TakeOverWorkload, rollout.PauseWorkload, rollout.FreezeWorkload, rollout.DisableAutoscaler, rollout.RestoreAutoscaler: // they hold what they find
		return base
	case rollout.HoldRevisionUnavailable:
		return base.and(partsOf(partSets))
	case rollout.ScaleWorkload, rollout.RestoreReplicas, rollout.ShrinkCanary: // in the place of pods that must be ready, or must get no traffic
		return base.and(partsOf(partSets, partCanary, partStableService, partRoutes))
	case rollout.ResumeRollingUpdate, rollout.PartitionWorkload: // as far as pods are ready, which the stable Service must not select
		return base.and(partsOf(partSets, partStableService))
	case rollout.ScaleRevision, rollout.ReplacePods: // in the place of pods that must be ready, or must get no traffic
		return base.and(partsOf(partSets, partStableService, partRoutes))
	case rollout.DeleteRevision: // whose pods must not be wanted, in a workload that comes back in another version
		return base.and(partsOf(partSets))
	case rollout.ApplyRoute: // to pods that must be ready
		if a.Step < 0 { // those of the stable version
			return base.and(partsOf(partSets))
		}
		base[partSets], base[partPolicies] = s.spec.ConstantCapacity, s.standsOnPolicies(a)
		for _, routing := range s.spec.Routing {
			switch {
			case routing.SeparateService():
				base[partEndpoints] = true
			case s.spec.Style != rollout.StyleCanary:
				base[partSets] = true
			default:
				base[partCanary] = true
			}
		}
		return base
	case rollout.ClaimTrafficRouting: // which leads to pods that must be ready
		return base.and(partsOf(partSets, partCanary, partEndpoints))
	case rollout.FreeTrafficRouting:
		return base
	case rollout.RestoreRoute: // in a step only because the canary is lost
		if rollout.State(d.Status.Sluice.State).InStep() {
			return base.and(partsOf(partCanary))
		}
		return base
	case rollout.UnpinService: // to all pods, none of which may be unwanted
		if d.Status.Sluice.FinaliseReason == api.FinaliseSuccess {
			return base
		}
		return base.and(partsOf(partSets, partCanary))
	case rollout.ResumeWorkload: // whose old pods must not be the only ones that get traffic
		return base.and(partsOf(partStableService, partRoutes))
	case rollout.DeleteCanary, rollout.ClearRoute: // to which no route may lead
		return base.and(partsOf(partRoutes))
	case rollout.DeleteCanaryService: // nor may a copy of a policy be attached to it
		return base.and(partsOf(partRoutes, partPolicies))
	}
	return allParts() // what is new here is safe, and what ends all is rare
}

// lives are the parts that need no confirmation.
func (s *Snapshot) lives() partSet {
	on := s.live
	for _, p := range []part{partStableService, partCanaryService, partEndpoints, partStableEndpoints} {
		on[p] = s.backendsLive(p)
	}
	on[partRoutes], on[partPolicies] = true, true
	for _, g := range s.gateways {
		on[partRoutes] = on[partRoutes] && g.fresh
		on[partPolicies] = on[partPolicies] && (g.policiesLive || len(g.carries) == 0)
	}
	return on
}

// standsOnPolicies reports whether the executor must read the policies live before it writes a step of a gateway object. It must if the object begins to lead to the
// canary, or if the step deletes a copy because the policy is gone.
func (s *Snapshot) standsOnPolicies(a rollout.ApplyRoute) bool {
	g := gatewayOf(s.gateways, a.Object)
	return g != nil && g.plan != nil && (!g.plan.RoutesToCanary() || g.plan.DropsCopy(a.Step))
}

// prints tell the states of parts apart.
func (s *Snapshot) prints(of partSet) (all [parts]string) {
	for p, on := range of {
		if !on {
			continue
		}
		switch part(p) {
		case partRollout:
			all[p] = print(s.rollout)
		case partWorkload:
			all[p] = print(s.deployment)
			if s.object.there() {
				all[p] = print(s.object.Live)
			}
		case partSets:
			for _, owner := range s.setOwners() {
				all[p] += prints(s.setsOf(owner)) + "\n"
			}
			all[p] += s.object.setsPrint(s.rollout.Name)
		case partCanary:
			all[p] = print(s.canary)
		case partStableService, partCanaryService, partEndpoints, partStableEndpoints:
			all[p] = s.backendsPrint(part(p))
		case partRoutes:
			for _, g := range s.gateways {
				all[p] += print(g.live) + prints(g.made()) + "\n"
			}
		case partPolicies:
			for _, g := range s.gateways {
				all[p] += prints(g.policies) + "\n"
			}
		}
	}
	return all
}
