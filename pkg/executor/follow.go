package executor

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/rollout"
)

// traceparentOf returns the trace context of an event, or "" if the event has no valid one.
func traceparentOf(e event.Event) string {
	text, _ := e.Extensions()["traceparent"].(string)
	if !trace.SpanContextFromContext(queue.WithTraceparent(context.Background(), text)).IsValid() {
		return ""
	}
	return text
}

// continueTrace continues the trace of the decision that waits in the status, regardless of the hint that started the run.
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
