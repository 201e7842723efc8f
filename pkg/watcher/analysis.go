package watcher

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// analysisRunView has the fields of an analysis that a watcher reads. It does not read the counts.
type analysisRunView struct {
	Phase                      api.AnalysisPhase
	Epoch, PauseSeq            int64
	RoutedAt, RenewBy, EndedAt string
}

// analysisRun returns the analysis as if it had not ended.
func (s *analysisRunView) analysisRun() *api.AnalysisRun {
	if s == nil {
		return nil
	}
	return &api.AnalysisRun{Epoch: s.Epoch, PauseSeq: s.PauseSeq}
}

// analyses are the analyses in a Rollout's status; nil if it has none.
type analyses struct {
	step, release analysis
	// renewBy is the deadline for the analyzer to renew every run that it measures now; zero if it measures none.
	renewBy time.Time
}

type analysis struct {
	epoch, pauseSeq int64
	phase           api.AnalysisPhase
	ended           bool
	// routedAt is the time of the last change of the traffic.
	routedAt string
	// current is true if the release is in the state in which the analysis is measured.
	current bool
}

func analysesOf(s *rolloutView, disabled bool) *analyses {
	seen, m := s.status.Analysis, s.status.Sluice
	if seen == nil || m == nil || seen.Step == nil && seen.Release == nil {
		return nil
	}
	r := &api.Rollout{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: s.DeletionTimestamp}, Spec: api.RolloutSpec{Disabled: disabled}}
	r.Status.Sluice = &api.SluiceStatus{Epoch: m.Epoch, PauseSeq: m.PauseSeq, State: m.State}
	r.Status.Analysis = &api.AnalysisStatus{Step: seen.Step.analysisRun(), Release: seen.Release.analysisRun()}
	step, release := rollout.MeasuredRuns(r)
	a := &analyses{step: analysisOf(seen.Step, step != nil), release: analysisOf(seen.Release, release != nil)}
	a.noteRenewal(a.step, seen.Step)
	a.noteRenewal(a.release, seen.Release)
	return a
}

func analysisOf(s *analysisRunView, current bool) analysis {
	if s == nil {
		return analysis{}
	}
	return analysis{epoch: s.Epoch, pauseSeq: s.PauseSeq, phase: s.Phase, ended: s.EndedAt != "", routedAt: s.RoutedAt, current: current}
}

func (a *analyses) noteRenewal(of analysis, s *analysisRunView) {
	if !of.isMeasured() {
		return
	}
	if by := timeOf(s.RenewBy); !by.IsZero() && (a.renewBy.IsZero() || by.Before(a.renewBy)) {
		a.renewBy = by
	}
}

// isMeasured reports whether the analyzer must measure it now.
func (a analysis) isMeasured() bool { return a.current && !a.ended }

// anyMeasured reports whether the analyzer must measure any of them now.
func (a *analyses) anyMeasured() bool {
	return a != nil && (a.step.isMeasured() || a.release.isMeasured())
}

// renewalOverdue reports whether the analyzer should have renewed the runs by now.
func (a *analyses) renewalOverdue(now time.Time) bool {
	return a.anyMeasured() && !a.renewBy.IsZero() && now.After(a.renewBy)
}

// hasReported reports whether the analyzer has written something that an executor acts on: another phase, or the end of
// a run.
func (a *analyses) hasReported(old *analyses) bool {
	if a == nil {
		return false
	}
	if old == nil {
		old = &analyses{}
	}
	return a.step.hasReported(old.step) || a.release.hasReported(old.release)
}

func (a analysis) hasReported(old analysis) bool {
	switch {
	case !a.current:
		return false
	case !a.sameRun(old): // an executor began it, and always in this phase
		return a.ended || a.phase != "" && a.phase != api.AnalysisRunning
	}
	return a.phase != old.phase || a.ended != old.ended
}

// anyBegan reports whether the analyzer must start to measure: a new analysis, an interrupted one, or one after another
// change of the traffic.
func (a *analyses) anyBegan(old *analyses) bool {
	if a == nil {
		return false
	}
	if old == nil {
		old = &analyses{}
	}
	return a.step.hasBegun(old.step) || a.release.hasBegun(old.release)
}

func (a analysis) hasBegun(old analysis) bool {
	return a.isMeasured() && !(old.isMeasured() && a.sameRun(old) && a.routedAt == old.routedAt)
}

func (a analysis) sameRun(old analysis) bool {
	return a.epoch == old.epoch && a.pauseSeq == old.pauseSeq
}
