package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// What texts of a record hold at most, in bytes.
const (
	maxHistoryText    = 1024
	maxHistoryMessage = 4096
)

// telling is one call of [Account.Tell].
type telling struct {
	api.RolloutHistoryStatus
	*Account
	// lost: the account does not begin where the record ends. Of the stays up to then nobody knows when they ended.
	lost  bool
	known int
}

// Tell is a record of a release, with what the account knows beyond it. It is a pure function; what the record holds already is
// not told twice, so that a record that was written is told as it is.
func (a *Account) Tell(epoch int64, record api.RolloutHistoryStatus) api.RolloutHistoryStatus {
	t := &telling{RolloutHistoryStatus: *record.DeepCopy(), Account: a}
	t.Epoch = epoch
	t.describe()
	for _, c := range a.changes {
		if c.epoch > epoch {
			if c.begins() && c.epoch == epoch+1 {
				t.end(api.OutcomeSuperseded, c, fmt.Sprintf("Release %d took its place.", c.epoch))
			}
			break
		}
		if c.epoch == epoch && c.Seq > t.TransitionSeq {
			t.tell(c)
		}
	}
	if t.lost {
		t.fill()
	}
	t.judge()
	t.bound()
	return t.RolloutHistoryStatus
}

// EndedBefore is the record of a release of whose end nothing is known but that it had come before a later one was recorded, which began from the
// same version if the earlier one was given up.
func EndedBefore(record, later api.RolloutHistoryStatus, now time.Time) api.RolloutHistoryStatus {
	t := &telling{RolloutHistoryStatus: *record.DeepCopy()}
	outcome := api.OutcomeCompleted
	switch {
	case later.Epoch != t.Epoch+1 || t.StableRevision == "" || later.StableRevision == "":
		outcome = api.OutcomeSuperseded // by whichever came in between
	case later.StableRevision == t.StableRevision:
		outcome = api.OutcomeCanceled
	}
	at := metav1.NewMicroTime(now)
	if later.StartedAt != nil {
		at = *later.StartedAt
	}
	t.end(outcome, change{Transition: api.Transition{Seq: t.TransitionSeq, Time: at}}, fmt.Sprintf("How it ended was not recorded in time; release %d came after it.", later.Epoch))
	t.bound()
	return t.RolloutHistoryStatus
}

func (t *telling) describe() {
	for _, f := range t.facts {
		if f.epoch != t.Epoch {
			continue
		}
		t.Style = cmp.Or(t.Style, string(f.style))
		t.StableRevision, t.CanaryRevision = cmp.Or(t.StableRevision, f.stable), cmp.Or(t.CanaryRevision, f.canary)
		if len(t.Images) == 0 {
			t.Images = unique(f.images)
		}
	}
}

func unique(images []string) []string {
	var list []string
	for _, image := range images {
		if !slices.Contains(list, image) && len(list) < api.MaxHistoryImages {
			list = append(list, image)
		}
	}
	return list
}

// tell adds one transition.
func (t *telling) tell(c change) {
	if t.Outcome != "" {
		return
	}
	if c.Seq > t.TransitionSeq+1 && !c.begins() {
		t.lose(c)
		t.remark(fmt.Sprintf("What happened before transition %d was not recorded in time: steps or times may be missing.", c.Seq))
	}
	t.TransitionSeq = c.Seq
	if c.remark() {
		return
	}
	to := rollout.State(c.To)
	switch {
	case c.begins():
		t.StartedAt = timeOf(c.Time)
	case to == rollout.StateBeforeUpgrade:
		t.leave(c.Time)
		t.Steps = append(t.Steps, api.HistoryStep{Step: c.Step, StartedAt: timeOf(c.Time)})
	case to == rollout.StateReady:
		t.approve(c)
	case c.pauses():
		t.at(c.Step).PauseSeq = c.pause
	case to.InStep() && to != rollout.StateCompleted:
		t.at(c.Step)
	default:
		t.approve(c)
		t.leave(c.Time)
	}
	if to == rollout.StateFinalising && c.Reason != string(api.FinaliseSuccess) || to == rollout.StateAborted {
		t.remark(rollout.Sentence(rollout.Capital(cmp.Or(c.Message, c.Reason, "The release ended"))))
	}
	t.end(c.outcome(), c, "")
}

// lose passes over what was not heard before a transition. A step that was under way then, and is now, is taken for the same stay.
func (t *telling) lose(c change) {
	t.lost, t.known = true, len(t.Steps)
	if n := len(t.Steps); n > 0 && t.Steps[n-1].EndedAt == nil && t.Steps[n-1].Step == c.Step && rollout.State(c.To) != rollout.StateBeforeUpgrade {
		t.known--
	}
}

// open is the stay under way, nil without one.
func (t *telling) open() *api.HistoryStep {
	if n := len(t.Steps); n > t.known && t.Steps[n-1].EndedAt == nil {
		return &t.Steps[n-1]
	}
	return nil
}

// at is the stay at a step that is under way. It was missed if the record does not show it.
func (t *telling) at(step int32) *api.HistoryStep {
	if open := t.open(); open != nil && open.Step == step {
		return open
	}
	t.Steps = append(t.Steps, api.HistoryStep{Step: step})
	return &t.Steps[len(t.Steps)-1]
}

// leave ends the stay under way.
func (t *telling) leave(at metav1.MicroTime) {
	if open := t.open(); open != nil {
		open.EndedAt = &at
	}
}

// approve records who let the step end.
func (t *telling) approve(c change) {
	if c.Actor == "" || rollout.State(c.To) == rollout.StateAborted || !rollout.State(c.From).InStep() {
		return
	}
	step := t.at(c.Step)
	step.ApprovedBy = c.Actor
	if a := rollout.LastApproval(t.approvals, func(a api.Approval) bool {
		return a.Epoch == t.Epoch && a.PauseSeq == c.pause && a.Decision == api.DecisionApprove
	}); a != nil {
		step.Comment = a.Comment
	}
}

func (t *telling) end(outcome api.HistoryOutcome, c change, why string) {
	if outcome == "" || t.Outcome != "" {
		return
	}
	t.Phase, t.Outcome, t.EndedAt, t.TransitionSeq = api.HistoryCompleted, outcome, timeOf(c.Time), c.Seq
	if why != "" {
		t.remark(why)
	}
	t.leave(c.Time)
}

// fill adds the steps that were approved while nothing was recorded: approvals stay in the status for longer than transitions.
func (t *telling) fill() {
	for _, a := range t.approvals {
		if a.Epoch != t.Epoch || a.Decision != api.DecisionApprove {
			continue
		}
		step := t.stay(a.Step, a.PauseSeq)
		if step == nil {
			t.Steps = append(t.Steps, api.HistoryStep{Step: a.Step})
			step = &t.Steps[len(t.Steps)-1]
		}
		if step.PauseSeq = a.PauseSeq; step.ApprovedBy == "" {
			step.EndedAt, step.ApprovedBy, step.Comment = timeOf(a.Time), a.Actor, a.Comment
		}
	}
	slices.SortStableFunc(t.Steps, func(a, b api.HistoryStep) int { return knownFrom(a).Compare(knownFrom(b)) })
}

// stay is the one with a pause, or the latest at the step of whose pause nothing is known.
func (t *telling) stay(step int32, pause int64) *api.HistoryStep {
	var likely *api.HistoryStep
	for i := range t.Steps {
		switch s := &t.Steps[i]; {
		case s.PauseSeq == pause:
			return s
		case s.PauseSeq == 0 && s.Step == step:
			likely = s
		}
	}
	return likely
}

// knownFrom is when a stay is known to have been under way.
func knownFrom(s api.HistoryStep) time.Time {
	for _, at := range []*metav1.MicroTime{s.StartedAt, s.EndedAt} {
		if at != nil {
			return at.Time
		}
	}
	return time.Unix(1<<40, 0)
}

// judge records what the metrics of each stay said last.
func (t *telling) judge() {
	for _, run := range t.verdicts {
		if s := t.stay(run.Step, run.PauseSeq); s != nil && run.Epoch == t.Epoch {
			s.Verdict = run.Phase
		}
	}
}

func (t *telling) remark(sentence string) {
	if !strings.Contains(t.Message, sentence) {
		t.Message = strings.TrimSpace(t.Message + " " + sentence)
	}
}

// bound keeps the record within what its schema takes.
func (t *telling) bound() {
	if extra := len(t.Steps) - api.MaxHistorySteps; extra > 0 {
		t.remark("Only the latest stays at steps are kept.")
		t.Steps = t.Steps[extra:]
	}
	for i := range t.Steps {
		t.Steps[i].ApprovedBy, t.Steps[i].Comment = cut(t.Steps[i].ApprovedBy, maxHistoryText), cut(t.Steps[i].Comment, maxHistoryText)
	}
	t.Message = cut(t.Message, maxHistoryMessage)
}

func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}
