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

// stage does one stage of a run: a span of the run's trace, and a time in the metrics.
func (e *Executor) stage(ctx context.Context, name string, do func(context.Context) error) error {
	began := time.Now()
	ctx, span := begin(ctx, name)
	err := do(ctx)
	e.metrics.stages.WithLabelValues(name).Observe(time.Since(began).Seconds())
	end(span, err)
	return err
}

// apply carries out one action: a span named after its kind, and a count.
func (e *Executor) apply(ctx context.Context, action rollout.Action, do func(context.Context) error) error {
	_, kind, _ := strings.Cut(fmt.Sprintf("%T", action), ".")
	ctx, span := begin(ctx, kind, attribute.String("sluice.action", action.String()))
	err := do(ctx)
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	e.metrics.actions.WithLabelValues(kind, outcome).Inc()
	end(span, err)
	return err
}

func begin(ctx context.Context, name string, about ...attribute.KeyValue) (context.Context, trace.Span) {
	return otel.Tracer("sluice.dev/sluice/pkg/executor").Start(ctx, name, trace.WithAttributes(about...))
}

func end(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}
