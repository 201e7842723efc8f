package executor

import (
	"context"
	"fmt"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/rollout"
)

// outbox publishes the transitions of a status, each at least once.
type outbox struct {
	cluster string
	queue   *queue.Queue
	// sent is the highest sequence published, by Rollout UID.
	sent queue.Sent[int64]
}

func newOutbox(cluster string, q *queue.Queue) *outbox {
	return &outbox{cluster: cluster, queue: q}
}

func (o *outbox) publishTransitions(ctx context.Context, seen rollout.Seen) error {
	for _, t := range o.unsentTransitions(seen) {
		e, err := event.NewTransition(o.cluster, seen, t)
		if err != nil {
			return err
		}
		if err := o.queue.PublishEvent(ctx, e); err != nil {
			return fmt.Errorf("publish event %s: %w", e.ID(), err)
		}
		o.sent.Put(seen.UID, t.Seq)
	}
	return nil
}

func (o *outbox) unsentTransitions(seen rollout.Seen) []api.Transition {
	if seen.Status.Sluice == nil {
		return nil
	}
	last := o.sent.Get(seen.UID)
	var list []api.Transition
	for _, t := range seen.Status.Sluice.Transitions {
		if t.Seq > last {
			list = append(list, t)
		}
	}
	return list
}

// kubeEventsOf returns the Kubernetes Events for the new transitions that a user should notice.
func kubeEventsOf(seen rollout.Seen, o *outbox) []rollout.KubeEvent {
	var notes []rollout.KubeEvent
	for _, t := range o.unsentTransitions(seen) {
		switch t.Reason {
		case "ReleaseStarted", "PodsReady", "Completed", "Canceled", "Jumped", "PlanChanged":
			notes = append(notes, rollout.KubeEvent{Reason: "Progressing", Message: t.Message})
		case "Approved":
			notes = append(notes, rollout.KubeEvent{Reason: "Approved", Message: t.Message})
		case string(api.FinaliseRollback):
			notes = append(notes, rollout.KubeEvent{Reason: "Progressing", Message: "workload has been rollback, then rollout is canceled"})
		case string(api.FinaliseContinuous), string(api.FinaliseSuperseded):
			notes = append(notes, rollout.KubeEvent{Reason: "Progressing", Message: "workload continuous publishing canaryRevision, then restart publishing"})
		case string(api.FinaliseWorkloadGone), "AnalysisFailed", "AnalysisInconclusive", "Aborted":
			notes = append(notes, rollout.KubeEvent{Warning: true, Reason: t.Reason, Message: t.Message})
		case string(rollout.ReasonProgressDeadlineExceeded):
			if t.To == string(rollout.StateAborted) { // a hold for this reason has its own KubeEvent
				notes = append(notes, rollout.KubeEvent{Warning: true, Reason: t.Reason, Message: t.Message})
			}
		}
	}
	return notes
}
