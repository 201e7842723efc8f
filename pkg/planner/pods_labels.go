package planner

import "sluice.dev/sluice/pkg/rollout"

// podBatches returns the batches of the new pods.
func (p *planner) podBatches() rollout.PodBatches {
	switch {
	case p.inPlace():
		return p.seen.Workload.Batches
	case p.canaryLost():
		return rollout.PodBatches{}
	}
	return p.seen.Canary.Batches
}

// batchPlan returns the number of pods that each step up to the current one adds to the steps before it. A rollback in batches also gives batches to
// pods that run the stable version already, so that each batch has its share of all pods, as in OpenKruise.
func (p *planner) batchPlan() []int32 {
	var plan []int32
	most := int32(0)
	for n := int32(1); n <= p.m.Step; n++ {
		step, _ := p.seen.Spec.Step(n)
		pods := p.podsOf(step, p.seen.Workload.DesiredReplicas)
		plan = append(plan, max(0, pods-most))
		most = max(most, pods)
	}
	return plan
}

// podsLabelled reports whether the new pods have the labels of their release and batch.
func (p *planner) podsLabelled() bool {
	plan := p.batchPlan()
	if len(p.podBatches().AssignBatches(plan)) == 0 {
		return true
	}
	p.addActions(rollout.LabelPods{RolloutID: rollout.ReleaseID(p.seen.Workload.RolloutID, *p.m), Revision: p.m.CanaryRevision, Plan: plan})
	return false
}
