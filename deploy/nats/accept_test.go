package nats_test

import (
	"context"
	"time"

	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
)

// accept answers that every approval is accepted.
func accept(q *queue.Queue) queue.ApprovalHandler {
	return func(ctx context.Context, a queue.Approval) error {
		e, err := event.NewDecided(event.Rollout{Cluster: a.Key.Cluster, Namespace: a.Key.Namespace, Name: a.Key.Name, Fleet: a.Key.Task == queue.TaskFleet},
			event.Decided{Accepted: true, Principal: a.Principal, ApprovalSource: a.Event.Source(), ApprovalID: a.Event.ID()}, time.Unix(1, 0))
		if err != nil {
			return err
		}
		return q.PublishEvent(ctx, e)
	}
}
