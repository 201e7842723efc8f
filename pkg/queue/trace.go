package queue

import (
	"context"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"sluice.dev/sluice/pkg/event"
)

// headerTrace is the header with the W3C trace context of a message's sender. It is passed on even if no collector
// receives traces.
const headerTrace = "traceparent"

// traceparentOf returns the trace context of ctx as text, "" without one.
func traceparentOf(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[headerTrace]
}

// WithTraceparent returns ctx within the trace of a W3C trace context. An invalid text changes nothing.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{headerTrace: traceparent})
}

// stampMessage makes a message continue the trace of ctx.
func stampMessage(ctx context.Context, m *nats.Msg) {
	if t := traceparentOf(ctx); t != "" {
		m.Header.Set(headerTrace, t)
	}
}

// stampEvent returns an event that continues the trace of ctx, unless the event names a trace.
func stampEvent(ctx context.Context, e event.Event) event.Event {
	t := traceparentOf(ctx)
	if _, named := e.Extensions()[headerTrace]; named || t == "" {
		return e
	}
	e = e.Clone()
	e.SetExtension(headerTrace, t)
	return e
}

// startSpan begins a span about a key.
func startSpan(ctx context.Context, name string, kind trace.SpanKind, key Key) (context.Context, trace.Span) {
	about := []attribute.KeyValue{
		attribute.String("sluice.cluster", key.Cluster), attribute.String("k8s.namespace.name", key.Namespace), attribute.String("sluice.rollout", key.Name),
	}
	if key.Task != TaskRelease {
		about = append(about, attribute.String("sluice.task", key.Task))
	}
	return otel.Tracer("sluice.dev/sluice/pkg/queue").Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(about...))
}

// endSpan ends a span with the outcome of its work.
func endSpan(s trace.Span, err error) {
	if err != nil {
		s.RecordError(err)
		s.SetStatus(codes.Error, err.Error())
	}
	s.End()
}
