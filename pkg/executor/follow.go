package executor

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/rollout"
)

// traceparentOf is the trace context that an event came with, "" without a valid one.
func traceparentOf(e event.Event) string {
	text, _ := e.Extensions()["traceparent"].(string)
	if !trace.SpanContextFromContext(queue.WithTraceparent(context.Background(), text)).IsValid() {
		return ""
	}
	return text
}

// continueTrace continues the trace of the decision that a run finds waiting in the status, whatever hint brought the run about.
func continueTrace(ctx context.Context, seen rollout.Seen) context.Context {
	m, list := seen.Status.Sluice, seen.Status.Approvals
	if m == nil || rollout.State(m.State) != rollout.StatePaused || len(list) == 0 {
		return ctx
	}
	if last := list[len(list)-1]; last.Epoch == m.Epoch && last.PauseSeq == m.PauseSeq {
		return queue.WithTraceparent(ctx, last.Traceparent)
	}
	return ctx
}
