package analyzer

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/metric"
)

// maxConcurrent bounds the parallel measurements of one Rollout. The client bounds the parallel queries of a namespace.
const maxConcurrent = 16

// madeMeasurement is a new measurement of a metric of a task.
type madeMeasurement struct {
	task        *task
	metric      int
	measurement analysis.Measurement
	reason      string
}

// measureDue makes the due measurements in parallel, and counts each one as it arrives. When a measurement makes a run fail, measureDue does not wait for
// slower ones; a later run makes those.
func (a *Analyzer) measureDue(ctx context.Context, v *kube.AnalysisView, tasks []*task) error {
	ctx, cancel := context.WithCancel(ctx)
	answers, slots := make(chan madeMeasurement), make(chan struct{}, maxConcurrent)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	open, now := 0, a.Clock()
	for _, t := range tasks {
		list, _ := t.dueMeasurements(now)
		for _, d := range list {
			open++
			running.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				found := madeMeasurement{task: t, metric: d.metric}
				found.measurement, found.reason = a.makeMeasurement(ctx, v, t.run.Metrics[d.metric], d.at, d.past)
				select {
				case answers <- found:
				case <-ctx.Done():
				}
			})
		}
	}
	for ; open > 0; open-- {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case found := <-answers:
			if ctx.Err() != nil { // the cancellation of this run may have caused the failure
				return ctx.Err()
			}
			found.task.countMeasurement(found.metric, found.measurement, found.reason, a.Clock())
			if gate, _ := found.task.combinedGate(); gate == analysis.GateFailed {
				return nil
			}
		}
	}
	return nil
}

// makeMeasurement makes one measurement. past: it also reads the time before the release. Each fault, including a panic of Sluice itself, becomes an outcome with a reason.
func (a *Analyzer) makeMeasurement(ctx context.Context, v *kube.AnalysisView, m kube.AnalysisMetric, at time.Time, past bool) (found analysis.Measurement, reason string) {
	defer func() {
		if caught := recover(); caught != nil {
			a.Logger.Error("a measurement panicked", "namespace", v.Rollout.Namespace, "rollout", v.Rollout.Name, "metric", m.Name, "panic", fmt.Sprint(caught), "stack", string(debug.Stack()))
			found, reason = analysis.ErrorMeasurement(at, fmt.Errorf("the measurement failed by a fault of Sluice's: %v; please report it", caught)), string(metric.Panicked)
		}
	}()
	provider := metric.Provider{Address: m.Address, Headers: m.Headers}
	if m.Secret != "" {
		var err error
		if provider.Secret, err = a.kube.ReadSecret(ctx, types.NamespacedName{Namespace: v.Rollout.Namespace, Name: m.Secret}); err != nil {
			return analysis.ErrorMeasurement(at, err), string(metric.BadSecret)
		}
	}
	request := metric.Request{Namespace: v.Rollout.Namespace, Provider: provider, At: at, Timeout: m.Timeout}
	answers, err := a.runQueries(ctx, request, m.Queries())
	if err != nil {
		return analysis.ErrorMeasurement(at, err), string(metric.OutcomeOf(err))
	}
	if past {
		answers.Past = m.AskPast(a.askPast(ctx, request))
	}
	return m.Measure(at, answers), ""
}

// askPast returns a function that sends the range queries of [analysis.Metric.AskPast].
func (a *Analyzer) askPast(ctx context.Context, to metric.Request) func(analysis.PastQuery) (analysis.Result, error) {
	return func(q analysis.PastQuery) (analysis.Result, error) {
		to.Query, to.Range = q.Text, &metric.Range{Start: to.At.Add(-q.Length), End: to.At, Step: q.Step}
		answer, err := a.Metrics.Query(ctx, to)
		return answer.Result, err
	}
}

// runQueries sends all queries of a measurement in parallel and returns the first error. The other queries continue to their end, because one of them may be
// the query that detects that a provider answers again.
func (a *Analyzer) runQueries(ctx context.Context, to metric.Request, q analysis.Queries) (answers analysis.Answers, err error) {
	var running sync.WaitGroup
	var once sync.Once
	for _, one := range []struct {
		text string
		into *analysis.Result
	}{
		{q.Value, &answers.Value}, {q.Samples, &answers.Samples},
		{q.CanaryBad, &answers.CanaryBad}, {q.CanaryTotal, &answers.CanaryTotal}, {q.StableBad, &answers.StableBad}, {q.StableTotal, &answers.StableTotal},
		{q.CanaryBuckets, &answers.CanaryBuckets}, {q.StableBuckets, &answers.StableBuckets},
	} {
		if one.text == "" {
			continue
		}
		request := to
		request.Query = one.text
		running.Go(func() {
			answer, failed := a.Metrics.Query(ctx, request)
			if failed != nil {
				once.Do(func() { err = failed })
				return
			}
			*one.into = answer.Result
		})
	}
	running.Wait()
	return answers, err
}
