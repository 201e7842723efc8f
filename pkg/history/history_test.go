package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// tale builds statuses like those that a release writes, with one transition a second.
type tale struct{ rollout.Seen }

func aTale() *tale {
	return &tale{rollout.Seen{Name: "demo", Spec: rollout.Spec{Style: rollout.StyleCanary}, Status: api.RolloutStatus{Sluice: &api.SluiceStatus{State: string(rollout.StateIdle)}}}}
}

func second(n int64) metav1.MicroTime {
	return metav1.NewMicroTime(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Second))
}

func secondOf(n int64) *metav1.MicroTime { at := second(n); return &at }

func (t *tale) to(state rollout.State, step int32, reason, actor string) *tale {
	m := t.Status.Sluice
	m.TransitionSeq++
	m.Transitions = append(m.Transitions, api.Transition{
		Seq: m.TransitionSeq, Time: second(m.TransitionSeq), From: m.State, To: string(state), Step: step, Reason: reason, Actor: actor})
	if extra := len(m.Transitions) - api.MaxTransitions; extra > 0 {
		m.Transitions = m.Transitions[extra:]
	}
	m.State, m.Step = string(state), step
	return t
}

func (t *tale) begins() *tale {
	m := t.Status.Sluice
	m.Epoch++
	m.StableRevision, m.CanaryRevision = "h1", "v2"
	t.Workload = &rollout.Workload{Revision: "v2", Images: []string{"app:2", "init:1", "app:2"}}
	return t.to(rollout.StateInitializing, 1, "ReleaseStarted", "")
}

// step moves the release to the pause of a step, with five transitions.
func (t *tale) step(n int32) *tale {
	t.Status.Sluice.PauseSeq++
	return t.to(rollout.StateBeforeUpgrade, n, "StepStarted", "").to(rollout.StateUpgrade, n, "Upgrade", "").to(rollout.StateTrafficRouting, n, "PodsReady", "").
		to(rollout.StateAnalysis, n, "Routed", "").to(rollout.StatePaused, n, "NoAnalysis", "")
}

func (t *tale) approved(by, comment string) *tale {
	m := t.Status.Sluice
	t.Status.Approvals = append(t.Status.Approvals, api.Approval{
		Step: m.Step, Epoch: m.Epoch, PauseSeq: m.PauseSeq, Decision: api.DecisionApprove, Actor: by, Comment: comment, Time: second(m.TransitionSeq + 1)})
	return t.to(rollout.StateReady, m.Step, "Approved", by)
}

func (t *tale) measured(phase api.AnalysisPhase) *tale {
	m := t.Status.Sluice
	t.Status.Analysis = &api.AnalysisStatus{Step: &api.AnalysisRun{
		Phase: phase, Epoch: m.Epoch, Step: m.Step, PauseSeq: m.PauseSeq, StartedAt: secondOf(m.TransitionSeq)}}
	return t
}

func (t *tale) finalised(reason api.FinaliseReason, message string) *tale {
	t.to(rollout.StateFinalising, t.Status.Sluice.Step, string(reason), "")
	m := t.Status.Sluice
	m.Transitions[len(m.Transitions)-1].Message = message
	return t
}

// heard returns the record of the latest release after a Builder has observed the tale at each of the points.
func heard(points ...func(*tale)) api.RolloutHistoryStatus {
	var a Builder
	t := aTale()
	for _, next := range points {
		next(t)
		a.ObserveRollout(t.Seen)
	}
	return a.BuildRecord(t.Status.Sluice.Epoch, api.RolloutHistoryStatus{})
}

func TestWhatARecordTells(t *testing.T) {
	begun := func(then func(*tale)) []func(*tale) {
		return []func(*tale){func(t *tale) { t.begins() }, then}
	}
	record := func(change func(*api.RolloutHistoryStatus)) api.RolloutHistoryStatus {
		r := api.RolloutHistoryStatus{Epoch: 1, Style: "canary", StartedAt: secondOf(1), StableRevision: "h1", CanaryRevision: "v2", Images: []string{"app:2", "init:1"}}
		change(&r)
		return r
	}
	ended := func(outcome api.HistoryOutcome, at int64, message string, steps ...api.HistoryStep) api.RolloutHistoryStatus {
		return record(func(r *api.RolloutHistoryStatus) {
			r.Phase, r.Outcome, r.EndedAt, r.TransitionSeq, r.Message, r.Steps = api.HistoryCompleted, outcome, secondOf(at), at, message, steps
		})
	}
	first := func(end int64) api.HistoryStep {
		s := api.HistoryStep{Step: 1, PauseSeq: 1, StartedAt: secondOf(2)}
		if end > 0 {
			s.EndedAt = secondOf(end)
		}
		return s
	}
	cases := map[string]struct {
		points []func(*tale)
		want   api.RolloutHistoryStatus
	}{
		"a release that has just begun": {begun(func(*tale) {}), record(func(r *api.RolloutHistoryStatus) { r.TransitionSeq = 1 })},
		"a step under way": {begun(func(t *tale) { t.step(1) }), record(func(r *api.RolloutHistoryStatus) {
			r.TransitionSeq, r.Steps = 6, []api.HistoryStep{first(0)}
		})},
		"who approved a step, what was said, and what its metrics said": {
			append(begun(func(t *tale) { t.step(1).measured(api.AnalysisPassing).approved("ann", "looks good") }),
				func(t *tale) { t.to(rollout.StateBeforeUpgrade, 2, "StepStarted", "") }),
			record(func(r *api.RolloutHistoryStatus) {
				r.TransitionSeq = 8
				r.Steps = []api.HistoryStep{
					{Step: 1, PauseSeq: 1, StartedAt: secondOf(2), EndedAt: secondOf(8), ApprovedBy: "ann", Comment: "looks good", Verdict: api.AnalysisPassing},
					{Step: 2, StartedAt: secondOf(8)},
				}
			})},
		"a success": {begun(func(t *tale) {
			t.step(1).to(rollout.StateReady, 1, "PauseOver", "")
		}), record(func(r *api.RolloutHistoryStatus) { r.TransitionSeq, r.Steps = 7, []api.HistoryStep{first(0)} })},
		"a success to its end": {
			append(begun(func(t *tale) { t.step(1).to(rollout.StateReady, 1, "PauseOver", "") }), func(t *tale) {
				t.to(rollout.StateCompleted, 1, "StepsDone", "").finalised(api.FinaliseSuccess, "done").to(rollout.StateIdle, 1, "Completed", "")
			}), ended(api.OutcomeCompleted, 10, "", first(8))},
		"a rollback": {
			begun(func(t *tale) {
				t.step(1).finalised(api.FinaliseRollback, "the workload has been rolled back").to(rollout.StateIdle, 1, "Canceled", "")
			}), ended(api.OutcomeCanceled, 8, "The workload has been rolled back.", first(7))},
		"metrics that stopped it, and what came after": {
			append(begun(func(t *tale) {
				t.step(1).measured(api.AnalysisFailed).to(rollout.StateAborted, 1, "AnalysisFailed", rollout.AnalysisActor)
			}),
				func(t *tale) {
					t.finalised(api.FinaliseRollback, "rolled back").to(rollout.StateIdle, 1, "Canceled", "")
				}),
			ended(api.OutcomeAborted, 7, "AnalysisFailed.", api.HistoryStep{Step: 1, PauseSeq: 1, StartedAt: secondOf(2), EndedAt: secondOf(7), Verdict: api.AnalysisFailed})},
		"a Rollout that was disabled": {
			begun(func(t *tale) {
				t.step(1).finalised(api.FinaliseDisabled, "disabled").to(rollout.StateDisabled, 1, "Disabled", "")
			}),
			ended(api.OutcomeDisabled, 8, "Disabled.", first(7))},
		"a Rollout that was deleted": {
			begun(func(t *tale) {
				t.step(1).finalised(api.FinaliseDeleting, "deleted").to(rollout.StateTerminated, 1, "Deleted", "")
			}),
			ended(api.OutcomeDeleted, 8, "Deleted.", first(7))},
		"a step that was entered again": {
			append(begun(func(t *tale) { t.step(1) }), func(t *tale) { t.to(rollout.StateBeforeUpgrade, 1, "PlanChanged", "") }),
			record(func(r *api.RolloutHistoryStatus) {
				r.TransitionSeq, r.Steps = 7, []api.HistoryStep{first(7), {Step: 1, StartedAt: secondOf(7)}}
			})},
		"all steps skipped by a person": {
			begun(func(t *tale) { t.step(1).to(rollout.StateCompleted, 1, "Promoted", "ann") }),
			record(func(r *api.RolloutHistoryStatus) {
				r.TransitionSeq, r.Steps = 7, []api.HistoryStep{{Step: 1, PauseSeq: 1, StartedAt: secondOf(2), EndedAt: secondOf(7), ApprovedBy: "ann"}}
			})},
		"remarks are no steps": {
			begun(func(t *tale) {
				t.step(1)
				t.to(rollout.StateStalled, 1, "ServiceMissing", "")
				t.Status.Sluice.State = string(rollout.StatePaused)
			}), record(func(r *api.RolloutHistoryStatus) { r.TransitionSeq, r.Steps = 7, []api.HistoryStep{first(0)} })},
		"what an executor missed that nobody followed": {
			append(begun(func(t *tale) { t.step(1) }), func(t *tale) {
				t.approved("ann", "on").step(2).approved("bob", "and on").step(3).approved("ann", "")
			}),
			record(func(r *api.RolloutHistoryStatus) {
				r.TransitionSeq = 19
				r.Message = "The executor did not record the time before transition 12: steps or times may be missing."
				r.Steps = []api.HistoryStep{
					{Step: 1, PauseSeq: 1, StartedAt: secondOf(2), EndedAt: secondOf(7), ApprovedBy: "ann", Comment: "on"},
					{Step: 2, PauseSeq: 2, EndedAt: secondOf(14), ApprovedBy: "bob", Comment: "and on"},
					{Step: 3, PauseSeq: 3, StartedAt: secondOf(14), ApprovedBy: "ann"},
				}
			})},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, heard(c.points...)); diff != "" {
				t.Errorf("the record (-want +got):\n%s", diff)
			}
		})
	}
}

func TestANewerVersionEndsTheRecordOfTheOneBefore(t *testing.T) {
	var a Builder
	a.ObserveRollout(aTale().begins().Seen)
	tale := aTale().begins().step(1).finalised(api.FinaliseContinuous, "Workload is continuous release").begins()
	news := a.ObserveRollout(tale.Seen)
	if diff := cmp.Diff(NewTransitions{Any: true, Begun: true, Ended: true}, news); diff != "" {
		t.Errorf("the news (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int64{1, 2}, a.ReleasesToRecord()); diff != "" {
		t.Errorf("the releases (-want +got):\n%s", diff)
	}
	got := a.BuildRecord(1, api.RolloutHistoryStatus{})
	if got.Outcome != api.OutcomeSuperseded || !got.EndedAt.Equal(secondOf(8)) || got.Message != "Workload is continuous release. Release 2 took its place." {
		t.Errorf("the record of the first is %+v", got)
	}
	if got := a.BuildRecord(2, api.RolloutHistoryStatus{}); got.Outcome != "" || !got.StartedAt.Equal(secondOf(8)) {
		t.Errorf("the record of the second is %+v", got)
	}
}

func TestARecordIsBounded(t *testing.T) {
	var a Builder
	tale := aTale().begins()
	a.ObserveRollout(tale.Seen)
	for range api.MaxHistorySteps + 3 {
		a.ObserveRollout(tale.step(1).Seen)
	}
	got := a.BuildRecord(1, api.RolloutHistoryStatus{})
	if len(got.Steps) != api.MaxHistorySteps || got.Message != "Only the latest stays at steps are kept." {
		t.Errorf("it has %d steps and says %q", len(got.Steps), got.Message)
	}
}

func TestWhatIsLeftToRecord(t *testing.T) {
	paused := func() *tale { return aTale().begins().step(1) }
	cases := map[string]struct {
		recorded, then *tale
		want           []int64
	}{
		"nothing when nothing has happened":     {paused(), paused(), nil},
		"a verdict":                             {paused(), paused().measured(api.AnalysisPassed), []int64{1}},
		"the end of a release and the next one": {paused().finalised(api.FinaliseContinuous, ""), paused().finalised(api.FinaliseContinuous, "").begins(), []int64{1, 2}},
		"nothing when a Rollout at rest is held": {
			aTale().begins().finalised(api.FinaliseSuccess, "").to(rollout.StateIdle, 1, "Completed", ""),
			aTale().begins().finalised(api.FinaliseSuccess, "").to(rollout.StateIdle, 1, "Completed", "").to(rollout.StateStalled, 1, "WorkloadConflict", ""), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var a Builder
			a.ObserveRollout(c.recorded.Seen)
			a.DropRecorded(a.BuildRecord(1, api.RolloutHistoryStatus{}))
			if news := a.ObserveRollout(c.then.Seen); news.Any != (c.want != nil) {
				t.Errorf("the news are %+v", news)
			}
			if diff := cmp.Diff(c.want, a.ReleasesToRecord()); diff != "" || a.NothingToRecord() != (c.want == nil) {
				t.Errorf("the releases (-want +got), of which nothing is left: %v\n%s", a.NothingToRecord(), diff)
			}
		})
	}
}

func TestWhatIsSaidOfAnEndThatNobodyRecorded(t *testing.T) {
	t.Parallel()
	record := api.RolloutHistoryStatus{Epoch: 2, StableRevision: "h1", TransitionSeq: 7, Steps: []api.HistoryStep{{Step: 1, StartedAt: secondOf(6)}}}
	later := func(epoch int64, stable string, began *metav1.MicroTime) api.RolloutHistoryStatus {
		return api.RolloutHistoryStatus{Epoch: epoch, StableRevision: stable, StartedAt: began}
	}
	for sentence, test := range map[string]struct {
		later api.RolloutHistoryStatus
		want  api.HistoryOutcome
		at    int64
	}{
		"its version serves":                       {later(3, "h2", secondOf(20)), api.OutcomeCompleted, 20},
		"the version before it serves":             {later(3, "h1", secondOf(20)), api.OutcomeCanceled, 20},
		"which version serves is not known":        {later(3, "", secondOf(20)), api.OutcomeSuperseded, 20},
		"another release came in between":          {later(4, "h1", secondOf(20)), api.OutcomeSuperseded, 20},
		"nor is known when the next release began": {later(3, "h2", nil), api.OutcomeCompleted, 30},
	} {
		t.Run(sentence, func(t *testing.T) {
			want := record
			want.Phase, want.Outcome, want.EndedAt = api.HistoryCompleted, test.want, secondOf(test.at)
			want.Message = fmt.Sprintf("How it ended was not recorded in time; release %d came after it.", test.later.Epoch)
			want.Steps = []api.HistoryStep{{Step: 1, StartedAt: secondOf(6), EndedAt: secondOf(test.at)}}
			if diff := cmp.Diff(want, EndedBefore(record, test.later, second(30).Time)); diff != "" {
				t.Errorf("the record (-want +got):\n%s", diff)
			}
		})
	}
}
