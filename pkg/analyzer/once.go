package analyzer

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube"
)

// once looks, measures, stores and shows, in this order. Wherever it ends, the next one goes on from what was stored.
func (a *Analyzer) once(ctx context.Context, name types.NamespacedName, live bool) (wake time.Time, err error) {
	v, err := a.look(ctx, name, live)
	if err != nil {
		return time.Time{}, err
	}
	defer a.kube.Rest(v)
	if len(v.Runs) == 0 {
		a.figures.rest(name)
		return time.Time{}, nil
	}
	tasks, err := a.tasks(ctx, v)
	if err != nil {
		return time.Time{}, err
	}
	if err := a.measure(ctx, v, tasks); err != nil {
		return time.Time{}, err
	}
	for _, t := range tasks {
		if err := a.save(ctx, v, t); err != nil {
			return time.Time{}, err
		}
	}
	if err := a.show(ctx, v, tasks); err != nil {
		return time.Time{}, err
	}
	wake = nextLook(tasks, a.Clock(), a.ProblemRetry)
	a.figures.goesOn(name, wake)
	return wake, nil
}

// look asks the API server where the watch shows nothing to do: a hint may be here before what it is about.
func (a *Analyzer) look(ctx context.Context, name types.NamespacedName, live bool) (*kube.AnalysisView, error) {
	v, err := a.kube.Look(ctx, name, live)
	if err != nil || live || len(v.Runs) > 0 {
		return v, err
	}
	return a.kube.Look(ctx, name, true)
}

// tasks takes up each run where its stored sums are.
func (a *Analyzer) tasks(ctx context.Context, v *kube.AnalysisView) ([]*task, error) {
	var list []*task
	for _, run := range v.Runs {
		t := &task{run: run, uid: string(v.Rollout.UID)}
		data, revision, err := a.store.Sums(ctx, t.key())
		if err != nil {
			return nil, err
		}
		t.begin(data, revision)
		list = append(list, t)
	}
	return list, nil
}

// save tells what was measured, and stores it.
func (a *Analyzer) save(ctx context.Context, v *kube.AnalysisView, t *task) error {
	if len(t.counted) == 0 {
		return nil
	}
	for _, c := range t.counted {
		e, err := a.measured(v, t, c)
		if err != nil {
			return err
		}
		if err := a.store.PublishEvent(ctx, e); err != nil {
			return err
		}
	}
	data, err := t.encode()
	if err != nil {
		return err
	}
	if t.revision, err = a.store.SaveSums(ctx, t.key(), data, t.revision); err != nil {
		return err
	}
	for _, c := range t.counted {
		a.figures.counted(c)
	}
	return nil
}

// show puts into the status what the sums say, if that is something new.
func (a *Analyzer) show(ctx context.Context, v *kube.AnalysisView, tasks []*task) error {
	written := map[kube.Scope]*api.AnalysisRun{}
	for _, t := range tasks {
		shown, worth := t.show(a.Clock())
		if !worth {
			continue
		}
		if changes := phasesDiffer(*t.run.Record, shown); changes {
			e, err := a.verdict(v, t, shown)
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
	if err := a.kube.Write(ctx, v, written[kube.ScopeStep], written[kube.ScopeRelease]); err != nil {
		return err
	}
	for _, t := range tasks {
		if shown := written[t.run.Scope]; shown != nil {
			if before := t.run.Record.Phase; before != shown.Phase {
				a.figures.verdicts.WithLabelValues(string(shown.Phase)).Inc()
				a.Logger.Info("an analysis says something new", "namespace", v.Rollout.Namespace, "rollout", v.Rollout.Name,
					"scope", string(t.run.Scope), "from", before, "to", shown.Phase, "message", shown.Message)
			}
			t.run.Record = shown
		}
	}
	return nil
}
