// Package history makes the record of each release from the transitions in a Rollout's status. It reads and writes nothing.
//
// Its one invariant: an executor that dies, or that observes a status twice, changes nothing in the record of a release.
package history

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Builder collects what the statuses of one Rollout, observed one after the other, say about its releases beyond the recorded part. A status may be
// observed again. A status may also be missed, as long as the outbox of a later one still holds its transitions: the resulting records are the same.
// The zero value has observed nothing.
type Builder struct {
	lastObserved    int64
	changes         []change
	approvals       []api.Approval
	verdicts        []api.AnalysisRun
	newVerdictEpoch int64 // the release that has a new verdict
	facts           []releaseFacts
}

// change is a transition, or a remark, and the release and the pause that it belongs to.
type change struct {
	api.Transition
	epoch, pause int64
}

// releaseFacts is what one look shows of the release under way.
type releaseFacts struct {
	epoch          int64
	style          rollout.Style
	stable, canary string
	images         []string
}

// NewTransitions is what a look tells for the first time.
type NewTransitions struct {
	// Anything; the beginning or the end of a release.
	Any, Begun, Ended bool
}

// BuilderAfter is an account of what comes after a transition.
func BuilderAfter(seq int64) Builder { return Builder{lastObserved: seq} }

// ObserveRollout adds the observed state of a Rollout.
func (a *Builder) ObserveRollout(seen rollout.Seen) (news NewTransitions) {
	m := seen.Status.Sluice
	if m == nil || m.Epoch == 0 {
		return NewTransitions{}
	}
	for _, c := range changesOf(*m) {
		if c.Seq <= a.lastObserved {
			continue
		}
		if a.lastObserved = c.Seq; c.epoch == 0 || c.outsideRelease() {
			continue
		}
		a.changes = append(a.changes, c)
		news.Any = true
		news.Begun = news.Begun || c.startsRelease()
		news.Ended = news.Ended || c.releaseOutcome() != "" || c.startsRelease() && c.supersedesRelease()
	}
	a.observeStatus(seen)
	news.Any = news.Any || a.newVerdictEpoch > 0
	return news
}

// changesOf numbers what the outbox holds by release and by pause. A transition names neither, but only the beginning of a release leads to
// the next one, and only the end of routing to the next pause.
func changesOf(m api.SluiceStatus) []change {
	list := make([]change, len(m.Transitions))
	epoch, pause := m.Epoch, m.PauseSeq
	for i := len(list) - 1; i >= 0; i-- {
		list[i] = change{m.Transitions[i], max(epoch, 0), pause}
		if list[i].startsRelease() {
			epoch--
		}
		if list[i].startsPause() {
			pause--
		}
	}
	return list
}

// observeStatus adds the parts of the status other than transitions. Revisions and images belong to the release only while it is under way, or when
// it has just succeeded. The first ones count: a workload that goes back from a withdrawn version has other revisions in the status of the same
// release.
func (a *Builder) observeStatus(seen rollout.Seen) {
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
		a.addVerdict(api.AnalysisRun{Phase: all.Step.Phase, Epoch: all.Step.Epoch, Step: all.Step.Step, PauseSeq: all.Step.PauseSeq})
	}
	f := releaseFacts{epoch: m.Epoch, style: seen.Spec.Style}
	if rollout.State(m.State).Releasing() {
		f.stable, f.canary = m.StableRevision, m.CanaryRevision
		if w := seen.Workload; w != nil && w.Revision == m.CanaryRevision {
			f.images = w.Images
		}
	}
	i := slices.IndexFunc(a.facts, func(known releaseFacts) bool { return known.epoch == f.epoch })
	switch {
	case i < 0:
		a.facts = append(a.facts, f)
	case a.facts[i].canary == "":
		a.facts[i] = f
	case a.facts[i].canary == f.canary && len(f.images) > 0:
		a.facts[i].images = f.images
	}
}

// addVerdict takes in what the metrics of a stay at a step say.
func (a *Builder) addVerdict(run api.AnalysisRun) {
	i := slices.IndexFunc(a.verdicts, func(known api.AnalysisRun) bool { return known.Epoch == run.Epoch && known.PauseSeq == run.PauseSeq })
	switch {
	case i < 0:
		a.verdicts, a.newVerdictEpoch = append(a.verdicts, run), run.Epoch
	case a.verdicts[i].Phase != run.Phase:
		a.verdicts[i], a.newVerdictEpoch = run, run.Epoch
	}
}

// ReleasesToRecord are those that there is something to record of, by epoch, oldest first.
func (a *Builder) ReleasesToRecord() []int64 {
	var list []int64
	for _, c := range a.changes {
		if c.startsRelease() && c.supersedesRelease() && c.epoch > 1 {
			list = append(list, c.epoch-1)
		}
		list = append(list, c.epoch)
	}
	if a.newVerdictEpoch > 0 {
		list = append(list, a.newVerdictEpoch)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// DropRecorded forgets what a record holds.
func (a *Builder) DropRecorded(r api.RolloutHistoryStatus) {
	a.changes = slices.DeleteFunc(a.changes, func(c change) bool { return c.epoch <= r.Epoch && c.Seq <= r.TransitionSeq })
	if a.newVerdictEpoch <= r.Epoch {
		a.newVerdictEpoch = 0
	}
	if r.Outcome != "" {
		a.changes = slices.DeleteFunc(a.changes, func(c change) bool { return c.epoch <= r.Epoch })
		a.approvals = slices.DeleteFunc(a.approvals, func(known api.Approval) bool { return known.Epoch <= r.Epoch })
		a.verdicts = slices.DeleteFunc(a.verdicts, func(known api.AnalysisRun) bool { return known.Epoch <= r.Epoch })
		a.facts = slices.DeleteFunc(a.facts, func(known releaseFacts) bool { return known.epoch <= r.Epoch })
	}
}

// ForgetRelease forgets a release that is not to be recorded.
func (a *Builder) ForgetRelease(epoch int64) {
	a.DropRecorded(api.RolloutHistoryStatus{Epoch: epoch, Outcome: api.OutcomeDeleted})
}

// NothingToRecord reports whether nothing is left to record.
func (a *Builder) NothingToRecord() bool { return len(a.changes) == 0 && a.newVerdictEpoch == 0 }

// LastObserved is the number of the latest transition that was heard.
func (a *Builder) LastObserved() int64 { return a.lastObserved }

func (c change) startsRelease() bool {
	return rollout.State(c.To) == rollout.StateInitializing && c.Reason == "ReleaseStarted"
}

// startsPause reports whether another pause, or what comes before it, begins here.
func (c change) startsPause() bool {
	return rollout.State(c.To) == rollout.StateAnalysis && !c.isRemark()
}

// supersedesRelease reports whether the release that begins here took another one's place, or that one's that was aborted.
func (c change) supersedesRelease() bool {
	return rollout.State(c.From) != rollout.StateIdle && rollout.State(c.From) != rollout.StateDisabled
}

// outsideRelease reports whether the transition belongs to no release: no release of the Rollout is under way.
func (c change) outsideRelease() bool {
	return !rollout.State(c.From).Releasing() && !rollout.State(c.To).Releasing()
}

func (c change) isRemark() bool {
	return rollout.State(c.From).IsRemark() || rollout.State(c.To).IsRemark()
}

// releaseOutcome is how a release ends with the transition, "" when it does not.
func (c change) releaseOutcome() api.HistoryOutcome {
	if c.isRemark() {
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

func microTimePtr(t metav1.MicroTime) *metav1.MicroTime { return &t }
