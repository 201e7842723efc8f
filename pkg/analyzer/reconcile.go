package analyzer

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube"
)

// reconcileOnce observes, measures, stores and writes the status, in this order. If it ends early, the next run continues from the stored sums.
func (a *Analyzer) reconcileOnce(ctx context.Context, name types.NamespacedName, live bool) (wake time.Time, err error) {
	v, err := a.observeRuns(ctx, name, live)
	if err != nil {
		return time.Time{}, err
	}
	defer a.kube.TrackView(v)
	if len(v.Runs) == 0 {
		a.selfMetrics.untrackRollout(name)
		return time.Time{}, nil
	}
	tasks, err := a.loadTasks(ctx, v)
	if err != nil {
		return time.Time{}, err
	}
	if err := a.measureDue(ctx, v, tasks); err != nil {
		return time.Time{}, err
	}
	for _, t := range tasks {
		if err := a.saveSums(ctx, v, t); err != nil {
			return time.Time{}, err
		}
	}
	if err := a.writeStatus(ctx, v, tasks); err != nil {
		return time.Time{}, err
	}
	wake = nextWake(tasks, a.Clock(), a.ProblemRetry)
	a.selfMetrics.trackRollout(name, wake)
	return wake, nil
}

// observeRuns reads from the API server when the watch shows nothing to do: a hint may arrive before its change.
func (a *Analyzer) observeRuns(ctx context.Context, name types.NamespacedName, live bool) (*kube.AnalysisView, error) {
	v, err := a.kube.ObserveRuns(ctx, name, live)
	if err != nil || live || len(v.Runs) > 0 {
		return v, err
	}
	return a.kube.ObserveRuns(ctx, name, true)
}

// loadTasks loads the stored sums of each run.
func (a *Analyzer) loadTasks(ctx context.Context, v *kube.AnalysisView) ([]*task, error) {
	var list []*task
	for _, run := range v.Runs {
		t := &task{run: run, uid: string(v.Rollout.UID)}
		data, revision, err := a.store.LoadSums(ctx, t.sumsKey())
		if err != nil {
			return nil, err
		}
		t.loadStates(data, revision)
		list = append(list, t)
	}
	return list, nil
}

// saveSums publishes the events of the new measurements, and then stores the sums.
func (a *Analyzer) saveSums(ctx context.Context, v *kube.AnalysisView, t *task) error {
	if len(t.counted) == 0 {
		return nil
	}
	for _, c := range t.counted {
		e, err := a.measuredEvent(v, t, c)
		if err != nil {
			return err
		}
		if err := a.store.PublishEvent(ctx, e); err != nil {
			return err
		}
	}
	data, err := t.encodeSums()
	if err != nil {
		return err
	}
	if t.revision, err = a.store.SaveSums(ctx, t.sumsKey(), data, t.revision); err != nil {
		return err
	}
	for _, c := range t.counted {
		a.selfMetrics.countMeasurement(c)
	}
	return nil
}

// writeStatus writes the verdicts of the sums into the status, if they are worth a write.
func (a *Analyzer) writeStatus(ctx context.Context, v *kube.AnalysisView, tasks []*task) error {
	written := map[kube.Scope]*api.AnalysisRun{}
	for _, t := range tasks {
		shown, worth := t.nextStatus(a.Clock())
		if !worth {
			continue
		}
		if changes := phasesDiffer(*t.run.Record, shown); changes {
			e, err := a.verdictEvent(v, t, shown)
			if err != nil {
				return err
			}
			if err := a.store.PublishEvent(ctx, e); err != nil {
				return err
			}
		}
		written[t.run.Scope] = &shown
	}
	if len(written) == 0 {
		return nil
	}
	if err := a.kube.WriteRuns(ctx, v, written[kube.ScopeStep], written[kube.ScopeRelease]); err != nil {
		return err
	}
	for _, t := range tasks {
		if shown := written[t.run.Scope]; shown != nil {
			if before := t.run.Record.Phase; before != shown.Phase {
				a.selfMetrics.verdicts.WithLabelValues(string(shown.Phase)).Inc()
				a.Logger.Info("an analysis says something new", "namespace", v.Rollout.Namespace, "rollout", v.Rollout.Name,
					"scope", string(t.run.Scope), "from", before, "to", shown.Phase, "message", shown.Message)
			}
			t.run.Record = shown
		}
	}
	return nil
}
