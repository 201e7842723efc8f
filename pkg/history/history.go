// Package history makes the record of each release from the transitions in a Rollout's status. It reads and writes nothing.
//
// Its one invariant: whoever dies, and however often a status is observed, the record of a release comes out the same.
package history

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Account is what the statuses of one Rollout, looked at one after the other, tell of its releases beyond what is recorded. Looks may
// repeat, and may be left out for as long as the outbox of the status still holds what was missed: the records that come of them
// are the same. The zero value is an account of which nothing was heard yet.
type Account struct {
	heard     int64
	changes   []change
	approvals []api.Approval
	verdicts  []api.AnalysisRun
	judged    int64 // the release of which a verdict is new
	facts     []fact
}

// change is a transition, or a remark, and the release and the pause that it belongs to.
type change struct {
	api.Transition
	epoch, pause int64
}

// fact is what one look shows of the release under way.
type fact struct {
	epoch          int64
	style          rollout.Style
	stable, canary string
	images         []string
}

// News is what a look tells for the first time.
type News struct {
	// Anything; the beginning or the end of a release.
	Any, Begun, Ended bool
}

// AccountAfter is an account of what comes after a transition.
func AccountAfter(seq int64) Account { return Account{heard: seq} }

// Hear takes in what is seen of a Rollout.
func (a *Account) Hear(seen rollout.Seen) (news News) {
	m := seen.Status.Sluice
	if m == nil || m.Epoch == 0 {
		return News{}
	}
	for _, c := range changesOf(*m) {
		if c.Seq <= a.heard {
			continue
		}
		if a.heard = c.Seq; c.epoch == 0 || c.aside() {
			continue
		}
		a.changes = append(a.changes, c)
		news.Any = true
		news.Begun = news.Begun || c.begins()
		news.Ended = news.Ended || c.outcome() != "" || c.begins() && c.supersedes()
	}
	a.learn(seen)
	news.Any = news.Any || a.judged > 0
	return news
}

// changesOf numbers what the outbox holds by release and by pause. A transition names neither, but only the beginning of a release leads to
// the next one, and only the end of routing to the next pause.
func changesOf(m api.SluiceStatus) []change {
	list := make([]change, len(m.Transitions))
	epoch, pause := m.Epoch, m.PauseSeq
	for i := len(list) - 1; i >= 0; i-- {
		list[i] = change{m.Transitions[i], max(epoch, 0), pause}
		if list[i].begins() {
			epoch--
		}
		if list[i].pauses() {
			pause--
		}
	}
	return list
}

// learn takes in what the status tells beside its transitions. Revisions and images are those of the release only while that is under
// way, or when it has just succeeded.
func (a *Account) learn(seen rollout.Seen) {
	m := seen.Status.Sluice
	for _, approval := range seen.Status.Approvals {
		i := slices.IndexFunc(a.approvals, func(known api.Approval) bool {
			return known.Epoch == approval.Epoch && known.PauseSeq == approval.PauseSeq && known.Time.Equal(&approval.Time)
		})
		if i < 0 && approval.Epoch >= m.Epoch-1 {
			a.approvals = append(a.approvals, approval)
		}
	}
	if all := seen.Status.Analysis; all != nil && all.Step != nil && all.Step.Phase != "" && rollout.State(m.State).Releasing() {
		a.judge(api.AnalysisRun{Phase: all.Step.Phase, Epoch: all.Step.Epoch, Step: all.Step.Step, PauseSeq: all.Step.PauseSeq})
	}
	f := fact{epoch: m.Epoch, style: seen.Spec.Style}
	if rollout.State(m.State).Releasing() {
		f.stable, f.canary = m.StableRevision, m.CanaryRevision
		if w := seen.Workload; w != nil && w.Revision == m.CanaryRevision {
			f.images = w.Images
		}
	}
	i := slices.IndexFunc(a.facts, func(known fact) bool { return known.epoch == f.epoch })
	switch {
	case i < 0:
		a.facts = append(a.facts, f)
	case f.canary != "":
		a.facts[i] = f
	}
}

// judge takes in what the metrics of a stay at a step say.
func (a *Account) judge(run api.AnalysisRun) {
	i := slices.IndexFunc(a.verdicts, func(known api.AnalysisRun) bool { return known.Epoch == run.Epoch && known.PauseSeq == run.PauseSeq })
	switch {
	case i < 0:
		a.verdicts, a.judged = append(a.verdicts, run), run.Epoch
	case a.verdicts[i].Phase != run.Phase:
		a.verdicts[i], a.judged = run, run.Epoch
	}
}

// Releases are those that there is something to record of, by epoch, oldest first.
func (a *Account) Releases() []int64 {
	var list []int64
	for _, c := range a.changes {
		if c.begins() && c.supersedes() && c.epoch > 1 {
			list = append(list, c.epoch-1)
		}
		list = append(list, c.epoch)
	}
	if a.judged > 0 {
		list = append(list, a.judged)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Begins reports whether the account reaches back to the beginning of a release.
func (a *Account) Begins(epoch int64) bool {
	return slices.ContainsFunc(a.changes, func(c change) bool { return c.epoch == epoch && c.begins() })
}

// Recorded forgets what a record holds.
func (a *Account) Recorded(r api.RolloutHistoryStatus) {
	a.changes = slices.DeleteFunc(a.changes, func(c change) bool { return c.epoch <= r.Epoch && c.Seq <= r.TransitionSeq })
	if a.judged <= r.Epoch {
		a.judged = 0
	}
	if r.Outcome != "" {
		a.changes = slices.DeleteFunc(a.changes, func(c change) bool { return c.epoch <= r.Epoch })
		a.approvals = slices.DeleteFunc(a.approvals, func(known api.Approval) bool { return known.Epoch <= r.Epoch })
		a.verdicts = slices.DeleteFunc(a.verdicts, func(known api.AnalysisRun) bool { return known.Epoch <= r.Epoch })
		a.facts = slices.DeleteFunc(a.facts, func(known fact) bool { return known.epoch <= r.Epoch })
	}
}

// Forget forgets a release that is not to be recorded.
func (a *Account) Forget(epoch int64) {
	a.Recorded(api.RolloutHistoryStatus{Epoch: epoch, Outcome: api.OutcomeDeleted})
}

// Empty reports whether nothing is left to record.
func (a *Account) Empty() bool { return len(a.changes) == 0 && a.judged == 0 }

// Heard is the number of the latest transition that was heard.
func (a *Account) Heard() int64 { return a.heard }

func (c change) begins() bool {
	return rollout.State(c.To) == rollout.StateInitializing && c.Reason == "ReleaseStarted"
}

// pauses reports whether another pause, or what comes before it, begins here.
func (c change) pauses() bool { return rollout.State(c.To) == rollout.StateAnalysis && !c.remark() }

// supersedes reports whether the release that begins here took another one's place, or that one's that was aborted.
func (c change) supersedes() bool {
	return rollout.State(c.From) != rollout.StateIdle && rollout.State(c.From) != rollout.StateDisabled
}

// aside reports whether the transition is of no release: of a Rollout at rest.
func (c change) aside() bool {
	return !rollout.State(c.From).Releasing() && !rollout.State(c.To).Releasing()
}

func (c change) remark() bool { return rollout.State(c.From).Remark() || rollout.State(c.To).Remark() }

// outcome is how a release ends with the transition, "" when it does not.
func (c change) outcome() api.HistoryOutcome {
	if c.remark() {
		return ""
	}
	switch rollout.State(c.To) {
	case rollout.StateAborted:
		return api.OutcomeAborted
	case rollout.StateDisabled:
		return api.OutcomeDisabled
	case rollout.StateTerminated:
		return api.OutcomeDeleted
	case rollout.StateIdle:
		if c.Reason == "Completed" {
			return api.OutcomeCompleted
		}
		return api.OutcomeCanceled
	}
	return ""
}

func timeOf(t metav1.MicroTime) *metav1.MicroTime { return &t }
