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

// ConfirmDecision reads live what a decision stands on and the snapshot has from a watch only. It reports whether any of that had changed:
// then the snapshot shows how it is, nothing of the decision may be carried out, and it is to be decided again.
//
// A write is refused by the API server if its own object has changed. Confirm is for the others: a route is raised because pods
// are ready, and pods go because no route leads to them.
func (c *Client) ConfirmDecision(ctx context.Context, s *Snapshot, d rollout.Decision) (moved bool, err error) {
	live := s.confirmedParts()
	if fenceClosed(s.observedAt, time.Now()) { // another executor may have gone on meanwhile
		live[partRollout] = false
	}
	doubtful := s.decisionDependsOn(d).except(live)
	if d.CommitFirst && !apiequality.Semantic.DeepEqual(s.rollout.Status, d.Status) {
		doubtful[partRollout] = false // the commit is refused if it has changed
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
	if first { // the decision was made without these slices
		after[partStableEndpoints] = before[partStableEndpoints]
	}
	moved = after != before || len(s.problems) != problems
	if moved || first {
		s.updateView()
	}
	return moved, nil
}

// decisionDependsOn returns the parts of the world that must be as observed for a decision to be right. Fields that are only shown affect the status
// alone.
func (s *Snapshot) decisionDependsOn(d rollout.Decision) partSet {
	on := s.transitionDependsOn(d)
	for _, action := range d.Actions {
		on = on.union(s.actionDependsOn(action, d))
	}
	if s.object.isPresent() && s.object.idleState != nil && (len(d.Actions) > 0 || on[partWorkload]) { // only its last state is known
		on[partReplicaSets] = true
	}
	return on
}

// transitionDependsOn returns the parts that transitions depend on: the begin of a release, the end of its first checks, and its interruption.
func (s *Snapshot) transitionDependsOn(d rollout.Decision) partSet {
	var epoch int64
	var reason string
	if m := s.rollout.Status.Sluice; m != nil {
		epoch, reason = m.Epoch, string(m.FinaliseReason)
	}
	switch next := d.Status.Sluice; {
	case next.Epoch != epoch, s.releaseState() == rollout.StateInitializing && next.State != string(rollout.StateInitializing):
		return partsOf(partRollout, partWorkload, partReplicaSets, partStableEndpoints, partRoutes)
	case rollout.State(next.State) == rollout.StateFinalising && (s.releaseState() != rollout.StateFinalising || string(next.FinaliseReason) != reason):
		return partsOf(partRollout, partWorkload)
	case rollout.State(next.State) == rollout.StateIdle && s.releaseState() == rollout.StateFinalising: // nothing of the release may be left
		return partsOf(partCanary, partCanaryService, partRoutes)
	}
	return partSet{}
}

// actionDependsOn is the table of what an action stands on, besides the object that it writes.
func (s *Snapshot) actionDependsOn(action rollout.Action, d rollout.Decision) partSet {
	base := partsOf(partRollout, partWorkload)
	switch a := action.(type) {
	case rollout.AddFinalizer, rollout.LabelPods:
		return partSet{} // they give nothing and take nothing
	case rollout.CreateCanaryService, rollout.PrepareRoute: // to which no route leads yet
		return partsOf(partRollout)
	case rollout.AdoptWorkload, rollout.HoldWorkload:
		return base
	case rollout.PinService: // to stable pods that must be there; no pod of another workload may lose its requests
		return base.union(partsOf(partReplicaSets, partStableEndpoints))
	case rollout.CreateCanary, rollout.ScaleCanary: // whose pods the stable Service must not select
		return base.union(partsOf(partStableService))
	case rollout.TakeOverWorkload, rollout.PauseWorkload, rollout.FreezeWorkload, rollout.DisableAutoscaler, rollout.RestoreAutoscaler: // they hold what they find
		return base
	case rollout.HoldRevisionUnavailable:
		return base.union(partsOf(partReplicaSets))
	case rollout.ScaleWorkload, rollout.RestoreReplicas, rollout.ShrinkCanary: // in the place of pods that must be ready, or must get no traffic
		return base.union(partsOf(partReplicaSets, partCanary, partStableService, partRoutes))
	case rollout.ResumeRollingUpdate, rollout.PartitionWorkload: // as far as pods are ready, which the stable Service must not select
		return base.union(partsOf(partReplicaSets, partStableService))
	case rollout.ScaleRevision, rollout.ReplacePods: // in the place of pods that must be ready, or must get no traffic
		return base.union(partsOf(partReplicaSets, partStableService, partRoutes))
	case rollout.DeleteRevision: // whose pods must not be wanted, in a workload that comes back in another version
		return base.union(partsOf(partReplicaSets))
	case rollout.ApplyRoute: // to pods that must be ready
		if a.Step < 0 { // the pods of the stable version
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
	case rollout.ClaimTrafficRouting: // which leads to pods that must be ready
		return base.union(partsOf(partReplicaSets, partCanary, partEndpoints))
	case rollout.FreeTrafficRouting:
		return base
	case rollout.RestoreRoute: // in a step only because the canary is lost
		if rollout.State(d.Status.Sluice.State).InStep() {
			return base.union(partsOf(partCanary))
		}
		return base
	case rollout.UnpinService: // to all pods; no pod may be unwanted
		if d.Status.Sluice.FinaliseReason == api.FinaliseSuccess {
			return base
		}
		return base.union(partsOf(partReplicaSets, partCanary))
	case rollout.ResumeWorkload: // whose old pods must not be the only ones that get traffic
		return base.union(partsOf(partStableService, partRoutes))
	case rollout.DeleteCanary, rollout.ClearRoute: // to which no route may lead
		return base.union(partsOf(partRoutes))
	case rollout.DeleteCanaryService: // nor may a copy of a policy be attached to it
		return base.union(partsOf(partRoutes, partPolicies))
	}
	return allParts() // a new action is safe this way, and the last ones are rare
}

// confirmedParts are the parts that need no confirmation.
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

// routeDependsOnPolicies reports whether the executor must read the policies live before it writes a step of a gateway object. It must if the object begins to lead to the
// canary, or if the step deletes a copy because the policy is gone.
func (s *Snapshot) routeDependsOnPolicies(a rollout.ApplyRoute) bool {
	g := gatewayOf(s.gateways, a.Object)
	return g != nil && g.plan != nil && (!g.plan.RoutesToCanary() || g.plan.DropsCopy(a.Step))
}

// partFingerprints tell the states of parts apart.
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
