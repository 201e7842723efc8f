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

// Maximum lengths of texts in a record, in bytes.
const (
	maxHistoryText    = 1024
	maxHistoryMessage = 4096
)

// recordBuilder holds the state of one call of [Builder.BuildRecord].
type recordBuilder struct {
	api.RolloutHistoryStatus
	*Builder
	// incomplete: the Builder has observed nothing between the end of the record and its first transition. The ends of earlier stays are unknown.
	incomplete bool
	knownSteps int
}

// BuildRecord adds the observed facts to the record of a release. It is a pure function. It does not add facts that the record holds already, so a
// second call returns a written record unchanged.
func (a *Builder) BuildRecord(epoch int64, record api.RolloutHistoryStatus) api.RolloutHistoryStatus {
	t := &recordBuilder{RolloutHistoryStatus: *record.DeepCopy(), Builder: a}
	t.Epoch = epoch
	t.describeRelease()
	for _, c := range a.changes {
		if c.epoch > epoch {
			if c.startsRelease() && c.epoch == epoch+1 {
				t.endRelease(api.OutcomeSuperseded, c, fmt.Sprintf("Release %d took its place.", c.epoch))
			}
			break
		}
		if c.epoch == epoch && c.Seq > t.TransitionSeq {
			t.addTransition(c)
		}
	}
	if t.incomplete {
		t.addApprovedSteps()
	}
	t.recordVerdicts()
	t.trimRecord()
	return t.RolloutHistoryStatus
}

// EndedBefore returns the record of a release whose end was not observed. The release ended before a later release was recorded. If both releases
// began from the same stable version, the earlier release was given up.
func EndedBefore(record, later api.RolloutHistoryStatus, now time.Time) api.RolloutHistoryStatus {
	t := &recordBuilder{RolloutHistoryStatus: *record.DeepCopy()}
	outcome := api.OutcomeCompleted
	switch {
	case later.Epoch != t.Epoch+1 || t.StableRevision == "" || later.StableRevision == "":
		outcome = api.OutcomeSuperseded // by an unknown release between the two
	case later.StableRevision == t.StableRevision:
		outcome = api.OutcomeCanceled
	}
	at := metav1.NewMicroTime(now)
	if later.StartedAt != nil {
		at = *later.StartedAt
	}
	t.endRelease(outcome, change{Transition: api.Transition{Seq: t.TransitionSeq, Time: at}}, fmt.Sprintf("How it ended was not recorded in time; release %d came after it.", later.Epoch))
	t.trimRecord()
	return t.RolloutHistoryStatus
}

func (t *recordBuilder) describeRelease() {
	for _, f := range t.facts {
		if f.epoch != t.Epoch {
			continue
		}
		t.Style = cmp.Or(t.Style, string(f.style))
		t.StableRevision, t.CanaryRevision = cmp.Or(t.StableRevision, f.stable), cmp.Or(t.CanaryRevision, f.canary)
		if len(t.Images) == 0 {
			t.Images = uniqueImages(f.images)
		}
	}
}

func uniqueImages(images []string) []string {
	var list []string
	for _, image := range images {
		if !slices.Contains(list, image) && len(list) < api.MaxHistoryImages {
			list = append(list, image)
		}
	}
	return list
}

// addTransition adds one transition.
func (t *recordBuilder) addTransition(c change) {
	if t.Outcome != "" {
		return
	}
	if c.Seq > t.TransitionSeq+1 && !c.startsRelease() {
		t.skipUnobserved(c)
		t.addMessage(fmt.Sprintf("The executor did not record the time before transition %d: steps or times may be missing.", c.Seq))
	}
	t.TransitionSeq = c.Seq
	if c.isRemark() {
		return
	}
	to := rollout.State(c.To)
	switch {
	case c.startsRelease():
		t.StartedAt = microTimePtr(c.Time)
	case to == rollout.StateBeforeUpgrade:
		t.endOpenStep(c.Time)
		t.Steps = append(t.Steps, api.HistoryStep{Step: c.Step, StartedAt: microTimePtr(c.Time)})
	case to == rollout.StateReady:
		t.recordApproval(c)
	case c.startsPause():
		t.ensureOpenStep(c.Step).PauseSeq = c.pause
	case to.InStep() && to != rollout.StateCompleted:
		t.ensureOpenStep(c.Step)
	default:
		t.recordApproval(c)
		t.endOpenStep(c.Time)
	}
	if to == rollout.StateFinalising && c.Reason != string(api.FinaliseSuccess) || to == rollout.StateAborted {
		t.addMessage(rollout.EndSentence(rollout.CapitalizeFirst(cmp.Or(c.Message, c.Reason, "The release ended"))))
	}
	t.endRelease(c.releaseOutcome(), c, "")
}

// skipUnobserved skips the transitions before c that were not observed. If the same step was under way before the gap, the record continues its stay.
func (t *recordBuilder) skipUnobserved(c change) {
	t.incomplete, t.knownSteps = true, len(t.Steps)
	if n := len(t.Steps); n > 0 && t.Steps[n-1].EndedAt == nil && t.Steps[n-1].Step == c.Step && rollout.State(c.To) != rollout.StateBeforeUpgrade {
		t.knownSteps--
	}
}

// openStep returns the current stay at a step, or nil.
func (t *recordBuilder) openStep() *api.HistoryStep {
	if n := len(t.Steps); n > t.knownSteps && t.Steps[n-1].EndedAt == nil {
		return &t.Steps[n-1]
	}
	return nil
}

// ensureOpenStep returns the current stay at a step. It adds the stay if the record does not show it, because its beginning was not observed.
func (t *recordBuilder) ensureOpenStep(step int32) *api.HistoryStep {
	if open := t.openStep(); open != nil && open.Step == step {
		return open
	}
	t.Steps = append(t.Steps, api.HistoryStep{Step: step})
	return &t.Steps[len(t.Steps)-1]
}

// endOpenStep ends the current stay.
func (t *recordBuilder) endOpenStep(at metav1.MicroTime) {
	if open := t.openStep(); open != nil {
		open.EndedAt = &at
	}
}

// recordApproval records the user who approved the step.
func (t *recordBuilder) recordApproval(c change) {
	if c.Actor == "" || rollout.State(c.To) == rollout.StateAborted || !rollout.State(c.From).InStep() {
		return
	}
	step := t.ensureOpenStep(c.Step)
	step.ApprovedBy = c.Actor
	if a := rollout.LastApproval(t.approvals, func(a api.Approval) bool {
		return a.Epoch == t.Epoch && a.PauseSeq == c.pause && a.Decision == api.DecisionApprove
	}); a != nil {
		step.Comment = a.Comment
	}
}

func (t *recordBuilder) endRelease(outcome api.HistoryOutcome, c change, why string) {
	if outcome == "" || t.Outcome != "" {
		return
	}
	t.Phase, t.Outcome, t.EndedAt, t.TransitionSeq = api.HistoryCompleted, outcome, microTimePtr(c.Time), c.Seq
	if why != "" {
		t.addMessage(why)
	}
	t.endOpenStep(c.Time)
}

// addApprovedSteps adds steps that were approved while no executor recorded them. The status keeps approvals longer than transitions.
func (t *recordBuilder) addApprovedSteps() {
	for _, a := range t.approvals {
		if a.Epoch != t.Epoch || a.Decision != api.DecisionApprove {
			continue
		}
		step := t.findStep(a.Step, a.PauseSeq)
		if step == nil {
			t.Steps = append(t.Steps, api.HistoryStep{Step: a.Step})
			step = &t.Steps[len(t.Steps)-1]
		}
		if step.PauseSeq = a.PauseSeq; step.ApprovedBy == "" {
			step.EndedAt, step.ApprovedBy, step.Comment = microTimePtr(a.Time), a.Actor, a.Comment
		}
	}
	slices.SortStableFunc(t.Steps, func(a, b api.HistoryStep) int { return knownFrom(a).Compare(knownFrom(b)) })
}

// findStep returns the stay with a pause, or the latest stay at the step whose pause is unknown.
func (t *recordBuilder) findStep(step int32, pause int64) *api.HistoryStep {
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

// knownFrom returns a time at which a stay was under way for certain.
func knownFrom(s api.HistoryStep) time.Time {
	for _, at := range []*metav1.MicroTime{s.StartedAt, s.EndedAt} {
		if at != nil {
			return at.Time
		}
	}
	return time.Unix(1<<40, 0)
}

// recordVerdicts records the last verdict of the metrics on each stay.
func (t *recordBuilder) recordVerdicts() {
	for _, run := range t.verdicts {
		if s := t.findStep(run.Step, run.PauseSeq); s != nil && run.Epoch == t.Epoch {
			s.Verdict = run.Phase
		}
	}
}

func (t *recordBuilder) addMessage(sentence string) {
	if !strings.Contains(t.Message, sentence) {
		t.Message = strings.TrimSpace(t.Message + " " + sentence)
	}
}

// trimRecord keeps the record within the limits of its schema.
func (t *recordBuilder) trimRecord() {
	if extra := len(t.Steps) - api.MaxHistorySteps; extra > 0 {
		t.addMessage("Only the latest stays at steps are kept.")
		t.Steps = t.Steps[extra:]
	}
	for i := range t.Steps {
		t.Steps[i].ApprovedBy, t.Steps[i].Comment = truncateText(t.Steps[i].ApprovedBy, maxHistoryText), truncateText(t.Steps[i].Comment, maxHistoryText)
	}
	t.Message = truncateText(t.Message, maxHistoryMessage)
}

func truncateText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}
