package watcher

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// runSeen is what is read of an analysis. What it has counted is none of a watcher's business.
type runSeen struct {
	Phase                      api.AnalysisPhase
	Epoch, PauseSeq            int64
	RoutedAt, RenewBy, EndedAt string
}

// run is the analysis, as if it had not ended.
func (s *runSeen) run() *api.AnalysisRun {
	if s == nil {
		return nil
	}
	return &api.AnalysisRun{Epoch: s.Epoch, PauseSeq: s.PauseSeq}
}

// analyses are those that a Rollout's status tells of; nil is none.
type analyses struct {
	step, release analysis
	// renewBy is when something is to be heard of all that are measured now; zero if none is.
	renewBy time.Time
}

type analysis struct {
	epoch, pauseSeq int64
	phase           api.AnalysisPhase
	ended           bool
	// routedAt is when the traffic changed last.
	routedAt string
	// current: the release is where it is measured.
	current bool
}

func analysesOf(s *sighting, disabled bool) *analyses {
	seen, m := s.status.Analysis, s.status.Sluice
	if seen == nil || m == nil || seen.Step == nil && seen.Release == nil {
		return nil
	}
	r := &api.Rollout{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: s.DeletionTimestamp}, Spec: api.RolloutSpec{Disabled: disabled}}
	r.Status.Sluice = &api.SluiceStatus{Epoch: m.Epoch, PauseSeq: m.PauseSeq, State: m.State}
	r.Status.Analysis = &api.AnalysisStatus{Step: seen.Step.run(), Release: seen.Release.run()}
	step, release := rollout.MeasuredRuns(r)
	a := &analyses{step: analysisOf(seen.Step, step != nil), release: analysisOf(seen.Release, release != nil)}
	a.renewed(a.step, seen.Step)
	a.renewed(a.release, seen.Release)
	return a
}

func analysisOf(s *runSeen, current bool) analysis {
	if s == nil {
		return analysis{}
	}
	return analysis{epoch: s.Epoch, pauseSeq: s.PauseSeq, phase: s.Phase, ended: s.EndedAt != "", routedAt: s.RoutedAt, current: current}
}

func (a *analyses) renewed(of analysis, s *runSeen) {
	if !of.measured() {
		return
	}
	if by := timeOf(s.RenewBy); !by.IsZero() && (a.renewBy.IsZero() || by.Before(a.renewBy)) {
		a.renewBy = by
	}
}

// measured reports whether it is to be measured now.
func (a analysis) measured() bool { return a.current && !a.ended }

// measured reports whether anything is to be measured now.
func (a *analyses) measured() bool { return a != nil && (a.step.measured() || a.release.measured()) }

// unheard reports whether who measures should have been heard of by now.
func (a *analyses) unheard(now time.Time) bool {
	return a.measured() && !a.renewBy.IsZero() && now.After(a.renewBy)
}

// spoke reports whether who measures has said what an executor acts on: another phase, or that nothing is left to measure.
func (a *analyses) spoke(old *analyses) bool {
	if a == nil {
		return false
	}
	if old == nil {
		old = &analyses{}
	}
	return a.step.spoke(old.step) || a.release.spoke(old.release)
}

func (a analysis) spoke(old analysis) bool {
	switch {
	case !a.current:
		return false
	case !a.same(old): // an executor began it, and by no other phase
		return a.ended || a.phase != "" && a.phase != api.AnalysisRunning
	}
	return a.phase != old.phase || a.ended != old.ended
}

// began reports whether something is to be measured that was not before: another analysis, one that was interrupted, or one after
// another change of the traffic.
func (a *analyses) began(old *analyses) bool {
	if a == nil {
		return false
	}
	if old == nil {
		old = &analyses{}
	}
	return a.step.began(old.step) || a.release.began(old.release)
}

func (a analysis) began(old analysis) bool {
	return a.measured() && !(old.measured() && a.same(old) && a.routedAt == old.routedAt)
}

func (a analysis) same(old analysis) bool { return a.epoch == old.epoch && a.pauseSeq == old.pauseSeq }
