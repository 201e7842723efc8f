package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// collect collects the spans of this process. Other scenarios run in parallel, so a caller must select its spans by
// namespace.
func collect(t *testing.T) *tracetest.InMemoryExporter {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(sdk.NewTracerProvider(sdk.WithSyncer(spans)))
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	return spans
}

// pathTo returns the names of the spans from the beginning of a trace to a span with a name in a namespace. It returns
// nil if there is no such span yet.
func pathTo(spans tracetest.SpanStubs, name, namespace string) (path []string) {
	for i := range spans {
		if spans[i].Name != name {
			continue
		}
		path = nil
		about := ""
		for at := &spans[i]; at != nil; at = parentOf(spans, at) {
			path = append(path, at.Name)
			for _, a := range at.Attributes {
				if a.Key == "k8s.namespace.name" {
					about = a.Value.AsString()
				}
			}
		}
		if about == namespace {
			slices.Reverse(path)
			return path
		}
	}
	return nil
}

func parentOf(spans tracetest.SpanStubs, child *tracetest.SpanStub) *tracetest.SpanStub {
	for i := range spans {
		if child.Parent.IsValid() && spans[i].SpanContext.SpanID() == child.Parent.SpanID() {
			return &spans[i]
		}
	}
	return nil
}

func TestATraceLeadsFromAChangeToTheRoute(t *testing.T) {
	w := world.Shared(t)
	spans := collect(t)
	d := aDemo(t, w)
	d.release(t, version("canary"))
	d.at(t, 1)
	want := []string{"hint", "run", "act", "ApplyRoute"}
	got := awaitPath(t, spans, "ApplyRoute", d.ns)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("from the change to the route (-want +got):\n%s", diff)
	}
}

// awaitPath waits until the whole path has ended: a span is exported when it ends, after the spans within it.
func awaitPath(t *testing.T, spans *tracetest.InMemoryExporter, name, namespace string) (path []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if path = pathTo(spans.GetSpans(), name, namespace); len(path) > 0 {
			return path
		}
		select {
		case <-ctx.Done():
			t.Fatalf("no span %s of namespace %s has ended", name, namespace)
		case <-tick.C:
		}
	}
}

func TestTheTraceOfAnApprovalGoesOn(t *testing.T) {
	w := world.Shared(t)
	spans := collect(t)
	d := aDemo(t, w)
	p := aPipeline(t, d)
	d.release(t, version("canary"))
	d.at(t, 1)
	const id, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	e := p.event(t, "traced", decision(api.DecisionApprove))
	e.SetExtension("traceparent", parent)
	if err := p.queue.PublishApproval(t.Context(), p.key, "ci", e); err != nil {
		t.Fatal(err)
	}
	decided, told := p.answer(t, "ci", e)
	if !decided.Accepted {
		t.Fatalf("refused: %s", decided.Message)
	}
	if got := fmt.Sprint(told.Extensions()["traceparent"]); !strings.Contains(got, id) {
		t.Errorf("the answer continues %s, want %s", got, id)
	}
	d.await(t, world.PausedAt(2))
	var names []string
	for _, s := range spans.GetSpans() {
		if s.SpanContext.TraceID().String() == id {
			names = append(names, s.Name)
		}
	}
	for _, want := range []string{"decide", "commit", "act", "ScaleCanary"} {
		if !slices.Contains(names, want) {
			t.Errorf("the trace has no span %s: %v", want, names)
		}
	}
	for got := range p.events(t) {
		if got.Type() == "dev.sluice.step.approved.v1" {
			if text := fmt.Sprint(got.Extensions()["traceparent"]); !strings.Contains(text, id) {
				t.Errorf("the event of what it led to continues %s, want %s", text, id)
			}
			return
		}
	}
	t.Error("no event tells of what it led to")
}
