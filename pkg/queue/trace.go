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

// headerTrace is the W3C trace context of whoever sent a message. It is passed on
// even where nobody collects traces.
const headerTrace = "traceparent"

// traceparent is the trace context of ctx as text, "" without one.
func traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[headerTrace]
}

// Traced is ctx within the trace that a W3C trace context names; a text that is
// none changes nothing.
func Traced(ctx context.Context, traceparent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{headerTrace: traceparent})
}

// stamp has a message continue the trace of ctx.
func stamp(ctx context.Context, m *nats.Msg) {
	if t := traceparent(ctx); t != "" {
		m.Header.Set(headerTrace, t)
	}
}

// stamped is an event that continues the trace of ctx, unless it names one.
func stamped(ctx context.Context, e event.Event) event.Event {
	t := traceparent(ctx)
	if _, named := e.Extensions()[headerTrace]; named || t == "" {
		return e
	}
	e = e.Clone()
	e.SetExtension(headerTrace, t)
	return e
}

// span begins a span about a key.
func span(ctx context.Context, name string, kind trace.SpanKind, key Key) (context.Context, trace.Span) {
	about := []attribute.KeyValue{
		attribute.String("sluice.cluster", key.Cluster), attribute.String("k8s.namespace.name", key.Namespace), attribute.String("sluice.rollout", key.Name),
	}
	if key.Task != TaskRelease {
		about = append(about, attribute.String("sluice.task", key.Task))
	}
	return otel.Tracer("sluice.dev/sluice/pkg/queue").Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(about...))
}

// ended ends a span with the outcome of what it was about.
func ended(s trace.Span, err error) {
	if err != nil {
		s.RecordError(err)
		s.SetStatus(codes.Error, err.Error())
	}
	s.End()
}
