package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
)

// ConfirmDecision reads live each part that a decision depends on and that the snapshot has from a watch only. It
// reports whether any of them has changed. If so, the snapshot has the new state. The caller must then carry out
// nothing of the decision, and must decide again.
//
// The API server refuses a write if the written object has changed. ConfirmDecision is for the other objects. For
// example, the executor raises a route because pods are ready, and deletes pods because no route leads to them.
func (c *Client) ConfirmDecision(ctx context.Context, s *Snapshot, d rollout.Decision) (moved bool, err error) {
	live := s.confirmedParts()
	if fenceClosed(s.observedAt, time.Now()) { // another executor may have run since
		live[partRollout] = false
	}
	doubtful := s.decisionDependsOn(d).except(live)
	if d.CommitFirst && !apiequality.Semantic.DeepEqual(s.rollout.Status, d.Status) {
		doubtful[partRollout] = false // the API server refuses the commit if it has changed
	}
	if doubtful.isEmpty() {
		return false, nil
	}
	before, problems, began := s.partFingerprints(doubtful), len(s.problems), time.Now()
	narrows := slices.ContainsFunc(d.Actions, func(a rollout.Action) bool { _, pins := a.(rollout.PinService); return pins })
	first := doubtful[partStableEndpoints] && !narrows && !s.stableEndpointsRead()
	o := &observation{client: c, snapshot: s, namespace: s.rollout.Namespace, source: fromServer, wanted: doubtful}
	if doubtful[partRollout] {
		seen := s.rollout
		if err := o.readRollout(ctx, o.keyOf(seen.Name)); err != nil {
			s.rollout = seen
			return false, apiclient.RolloutError("confirm", seen, err)
		}
		if fingerprintOf(s.rollout) != fingerprintOf(seen) {
			return true, c.ObserveLiveInto(ctx, s)
		}
	}
	if err := errors.Join(o.readParts(ctx), o.readPolicies(ctx)); err != nil {
		return false, fmt.Errorf("confirm the observed state of Rollout %s/%s: %w", s.rollout.Namespace, s.rollout.Name, err)
	}
	if doubtful[partRollout] {
		s.observedAt = began
	}
	after := s.partFingerprints(doubtful)
	if first { // the planner decided without these slices
		after[partStableEndpoints] = before[partStableEndpoints]
	}
	moved = after != before || len(s.problems) != problems
	if moved || first {
		s.updateView()
	}
	return moved, nil
}

// decisionDependsOn returns the parts of the world that must not have changed for a decision to be right. Parts that
// only the status shows are not among them.
func (s *Snapshot) decisionDependsOn(d rollout.Decision) partSet {
	on := s.transitionDependsOn(d)
	for _, action := range d.Actions {
		on = on.union(s.actionDependsOn(action, d))
	}
	if s.object.isPresent() && s.object.idleState != nil && (len(d.Actions) > 0 || on[partWorkload]) { // the snapshot has only its last state
		on[partReplicaSets] = true
	}
	return on
}

// transitionDependsOn returns the parts that a transition depends on. It covers the begin of a release, the end of its
// initial checks, and a change of its course, such as a rollback.
func (s *Snapshot) transitionDependsOn(d rollout.Decision) partSet {
	var epoch int64
	var reason string
	if m := s.rollout.Status.Sluice; m != nil {
		epoch, reason = m.Epoch, string(m.FinaliseReason)
	}
	switch next := d.Status.Sluice; {
	case s.rollout.Spec.Fleet != nil && next.Epoch != epoch && next.State == string(rollout.StateInitializing) && s.Seen.Workload.Held:
		// It only asks for a permit; the end of the initial checks is confirmed, in a later run. Without a hold the release begins because old pods
		// run, and a late watch may still show the pods of the release that has just ended.
		return partSet{}
	case next.Epoch != epoch, s.releaseState() == rollout.StateInitializing && next.State != string(rollout.StateInitializing):
		return partsOf(partRollout, partWorkload, partReplicaSets, partStableEndpoints, partRoutes)
	case rollout.State(next.State) == rollout.StateFinalising && (s.releaseState() != rollout.StateFinalising || string(next.FinaliseReason) != reason):
		return partsOf(partRollout, partWorkload)
	case rollout.State(next.State) == rollout.StateIdle && s.releaseState() == rollout.StateFinalising: // no object of the release may be left
		return partsOf(partCanary, partCanaryService, partRoutes)
	}
	return partSet{}
}

// actionDependsOn is the table of the parts that an action depends on, in addition to the object that it writes.
func (s *Snapshot) actionDependsOn(action rollout.Action, d rollout.Decision) partSet {
	base := partsOf(partRollout, partWorkload)
	switch a := action.(type) {
	case rollout.AddFinalizer, rollout.LabelPods, rollout.RecordPermit:
		return partSet{} // they neither add nor remove pods or traffic
	case rollout.CreateCanaryService, rollout.PrepareRoute: // no route leads to it yet
		return partsOf(partRollout)
	case rollout.AdoptWorkload, rollout.HoldWorkload:
		return base
	case rollout.PinService: // the Service then leads to stable pods only, so they must exist, and no pod of another workload may lose its requests
		return base.union(partsOf(partReplicaSets, partStableEndpoints))
	case rollout.CreateCanary, rollout.ScaleCanary: // the stable Service must not select the pods of the canary
		return base.union(partsOf(partStableService))
	case rollout.TakeOverWorkload, rollout.PauseWorkload, rollout.FreezeWorkload, rollout.DisableAutoscaler, rollout.RestoreAutoscaler: // they keep the workload as it is
		return base
	case rollout.HoldRevisionUnavailable:
		return base.union(partsOf(partReplicaSets))
	case rollout.ScaleWorkload, rollout.RestoreReplicas, rollout.ShrinkCanary: // they replace pods, which must not be needed: others must be ready, or no traffic may reach them
		return base.union(partsOf(partReplicaSets, partCanary, partStableService, partRoutes))
	case rollout.ResumeRollingUpdate, rollout.PartitionWorkload: // they follow the ready pods, and the stable Service must not select the new ones
		return base.union(partsOf(partReplicaSets, partStableService))
	case rollout.ScaleRevision, rollout.ReplacePods: // they replace pods, which must not be needed: others must be ready, or no traffic may reach them
		return base.union(partsOf(partReplicaSets, partStableService, partRoutes))
	case rollout.DeleteRevision: // the workload may have been restored in another version that wants these pods
		return base.union(partsOf(partReplicaSets))
	case rollout.ApplyRoute: // the pods that it leads to must be ready
		if a.Step < 0 { // it leads to the stable pods
			return base.union(partsOf(partReplicaSets))
		}
		base[partReplicaSets], base[partPolicies] = s.spec.ConstantCapacity, s.routeDependsOnPolicies(a)
		for _, routing := range s.spec.Routing {
			switch {
			case routing.SeparateService():
				base[partEndpoints] = true
			case s.spec.Style != rollout.StyleCanary:
				base[partReplicaSets] = true
			default:
				base[partCanary] = true
			}
		}
		return base
	case rollout.ClaimTrafficRouting: // the pods that it leads to must be ready
		return base.union(partsOf(partReplicaSets, partCanary, partEndpoints))
	case rollout.FreeTrafficRouting:
		return base
	case rollout.RestoreRoute: // a step restores a route only if the canary is lost
		if rollout.State(d.Status.Sluice.State).InStep() {
			return base.union(partsOf(partCanary))
		}
		return base
	case rollout.UnpinService: // the Service then selects all pods, so no unwanted pod may be left
		if d.Status.Sluice.FinaliseReason == api.FinaliseSuccess {
			return base
		}
		return base.union(partsOf(partReplicaSets, partCanary))
	case rollout.ResumeWorkload: // the old pods must not be the only ones that get traffic
		return base.union(partsOf(partStableService, partRoutes))
	case rollout.DeleteCanary, rollout.ClearRoute: // no route may lead to it
		return base.union(partsOf(partRoutes))
	case rollout.DeleteCanaryService: // no copy of a policy may be attached to it either
		return base.union(partsOf(partRoutes, partPolicies))
	}
	return allParts() // all parts are safe for an action that is not in the table, and actions that end everything are rare
}

// confirmedParts returns the parts that need no confirmation.
func (s *Snapshot) confirmedParts() partSet {
	on := s.liveParts
	for _, p := range []part{partStableService, partCanaryService, partEndpoints, partStableEndpoints} {
		on[p] = s.backendsLive(p)
	}
	on[partRoutes], on[partPolicies] = true, true
	for _, g := range s.gateways {
		on[partRoutes] = on[partRoutes] && g.confirmedLive
		on[partPolicies] = on[partPolicies] && (g.policiesLive || len(g.carries) == 0)
	}
	return on
}

// routeDependsOnPolicies reports whether the executor must read the policies live before it writes a step of a gateway
// object. It must if the object begins to lead to the canary, or if the step deletes a copy because the policy is gone.
func (s *Snapshot) routeDependsOnPolicies(a rollout.ApplyRoute) bool {
	g := gatewayOf(s.gateways, a.Object)
	return g != nil && g.plan != nil && (!g.plan.RoutesToCanary() || g.plan.DropsCopy(a.Step))
}

// partFingerprints tells the states of parts apart.
func (s *Snapshot) partFingerprints(of partSet) (all [partCount]string) {
	for p, on := range of {
		if !on {
			continue
		}
		switch part(p) {
		case partRollout:
			all[p] = fingerprintOf(s.rollout)
		case partWorkload:
			all[p] = fingerprintOf(s.deployment)
			if s.object.isPresent() {
				all[p] = fingerprintOf(s.object.Live)
			}
		case partReplicaSets:
			for _, owner := range s.replicaSetOwners() {
				all[p] += fingerprintsOf(s.replicaSetsOf(owner)) + "\n"
			}
			all[p] += s.object.revisionsFingerprint(s.rollout.Name)
		case partCanary:
			all[p] = fingerprintOf(s.canary)
		case partStableService, partCanaryService, partEndpoints, partStableEndpoints:
			all[p] = s.backendsFingerprint(part(p))
		case partRoutes:
			for _, g := range s.gateways {
				all[p] += fingerprintOf(g.live) + fingerprintsOf(g.children()) + "\n"
			}
		case partPolicies:
			for _, g := range s.gateways {
				all[p] += fingerprintsOf(g.policies) + "\n"
			}
		}
	}
	return all
}
