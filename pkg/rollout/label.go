package rollout

import "fmt"

// LabelPods tells the pods of the canary that do not tell it yet which release and batch they belong to, by OpenKruise's labels.
type LabelPods struct {
	// RolloutID is the owner's id of the release. Where it makes no label value, Revision stands in.
	RolloutID, Revision string
	// Batch is the step, counted from 1.
	Batch int32
}

// Raises is false: labels that nothing selects by expose nothing.
func (LabelPods) Raises() bool { return false }

func (a LabelPods) String() string { return fmt.Sprintf("label pods of batch %d", a.Batch) }

// podsLabelled reports whether every pod of the canary tells which release and batch it belongs to.
func (p *planner) podsLabelled() bool {
	if p.seen.Canary.Unlabelled == 0 {
		return true
	}
	id, revision := p.seen.Workload.RolloutID, p.m.CanaryRevision
	if id == "" {
		id = revision
	}
	p.act(LabelPods{RolloutID: id, Revision: revision, Batch: p.m.Step})
	return false
}
