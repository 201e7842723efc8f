package rollout

import "fmt"

// LabelPods tells the new pods that do not know it yet which release and batch they belong to, by OpenKruise's labels.
type LabelPods struct {
	// RolloutID is the owner's id of the release. Where it makes no label value, Revision stands in.
	RolloutID, Revision string
	// Batch is the step, counted from 1.
	Batch int32
}

// Raises is false: labels that nothing selects by expose nothing.
func (LabelPods) Raises() bool { return false }

func (a LabelPods) String() string { return fmt.Sprintf("label pods of batch %d", a.Batch) }

func (p *planner) unlabelled() int32 {
	if p.inPlace() {
		return p.seen.Workload.Unlabelled
	}
	return p.seen.Canary.Unlabelled
}

// podsLabelled reports whether every new pod tells which release and batch it belongs to.
func (p *planner) podsLabelled() bool {
	if p.unlabelled() == 0 {
		return true
	}
	p.act(LabelPods{RolloutID: ReleaseID(p.seen.Workload.RolloutID, *p.m), Revision: p.m.CanaryRevision, Batch: p.m.Step})
	return false
}
