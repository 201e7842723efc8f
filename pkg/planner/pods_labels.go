package planner

import "sluice.dev/sluice/pkg/rollout"

func (p *planner) unlabelledPods() int32 {
	if p.inPlace() {
		return p.seen.Workload.Unlabelled
	}
	return p.seen.Canary.Unlabelled
}

// podsLabelled reports whether every new pod has the labels for its release and batch.
func (p *planner) podsLabelled() bool {
	if p.unlabelledPods() == 0 {
		return true
	}
	p.addActions(rollout.LabelPods{RolloutID: rollout.ReleaseID(p.seen.Workload.RolloutID, *p.m), Revision: p.m.CanaryRevision, Batch: p.m.Step})
	return false
}
