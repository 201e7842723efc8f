package executor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"sluice.dev/sluice/pkg/rollout"
)

// Stages of a run.
const (
	stageObserve = "observe"
	stageConfirm = "confirm"
	stageAct     = "act"
	stageCommit  = "commit"
	stagePublish = "publish"
)

// runStage runs one stage of a run, with a trace span and a duration metric.
func (e *Executor) runStage(ctx context.Context, name string, do func(context.Context) error) error {
	began := time.Now()
	ctx, span := startSpan(ctx, name)
	err := do(ctx)
	e.metrics.stages.WithLabelValues(name).Observe(time.Since(began).Seconds())
	endSpan(span, err)
	return err
}

// runAction carries out one action, with a span named after its kind and a counter.
func (e *Executor) runAction(ctx context.Context, action rollout.Action, do func(context.Context) error) error {
	_, kind, _ := strings.Cut(fmt.Sprintf("%T", action), ".")
	ctx, span := startSpan(ctx, kind, attribute.String("sluice.action", action.String()))
	err := do(ctx)
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	e.metrics.actions.WithLabelValues(kind, outcome).Inc()
	endSpan(span, err)
	return err
}

func startSpan(ctx context.Context, name string, about ...attribute.KeyValue) (context.Context, trace.Span) {
	return otel.Tracer("sluice.dev/sluice/pkg/executor").Start(ctx, name, trace.WithAttributes(about...))
}

func endSpan(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}
