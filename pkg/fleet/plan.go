package fleet

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"sluice.dev/sluice/pkg/api"
)

// Plan decides what the hub does next for one FleetRollout. It is level-triggered: for the same observed state and time it returns the same
// decision. After a crash between any two writes, the next call with the observed state continues.
func Plan(seen Seen, now time.Time) Decision {
	p := newPlanner(seen, now)
	p.mergeReports()
	p.followCommand()
	if p.readRelease() {
		p.readClusters()
		if p.finishGrant() {
			p.proceed()
		}
		p.describeClusters()
	} else if c := p.clusterCommand; c != nil {
		p.recordRefusal(*c, p.status.Message)
	}
	p.describeStatus()
	return Decision{Status: p.status, Targets: p.targets, WakeAt: p.wake}
}

// planner is one call of Plan: the observed state, and the decision so far.
type planner struct {
	seen   Seen
	now    time.Time
	status api.FleetRolloutStatus
	// spec is the plan that the release began with.
	spec     Spec
	clusters map[string]*cluster
	// names are the keys of clusters, sorted.
	names   []string
	targets map[string]Target
	wake    time.Time
	// clusterCommand is a command about clusters that is still to be followed or refused.
	clusterCommand *api.FleetCommand
	// unplanned: spec.release names another version, and there is no valid plan for it.
	unplanned bool
	// cutOff: the hub has lost most of its members at once.
	cutOff bool
	// starting: the executor has started a short time ago, and has not heard every member.
	starting bool
	// granted: this call has made a grant. There is at most one for each call.
	granted bool
}

func newPlanner(seen Seen, now time.Time) *planner {
	return &planner{seen: seen, now: now, status: *seen.Status.DeepCopy(), clusters: map[string]*cluster{}, targets: map[string]Target{}}
}

// proceed plans a release whose last grant has reached all of its FleetTargets.
func (p *planner) proceed() {
	switch p.status.Verb {
	case api.FleetVerbWithdraw:
		p.planWithdrawal()
	case api.FleetVerbAbort:
		p.planAbort()
	default:
		p.planRelease()
	}
}

// readRelease begins a release if spec.release names another version than the status, and reads the plan of the release. It reports whether there is
// a release to plan.
func (p *planner) readRelease() bool {
	key := p.seen.Release.Key()
	known := p.status.Release != nil && p.status.Release.Version == p.seen.Release.Version && api.FleetImagesDigest(p.status.Release.Images) == api.FleetImagesDigest(p.seen.Release.Images)
	switch {
	case key == "" && p.status.Release == nil:
		p.setPhase(api.FleetPhaseIdle, "NoRelease", "No version is named; set spec.release, or type: sluice fleet release "+p.seen.Name+" --version VERSION -n "+p.seen.Namespace)
		return false
	case key != "" && !known && p.seen.SpecProblem != "" && p.status.Release == nil:
		p.setPhase(api.FleetPhaseStalled, "InvalidPlan", p.seen.SpecProblem)
		return false
	case key != "" && !known && p.seen.SpecProblem != "":
		p.unplanned = true
	case key != "" && !known:
		p.beginRelease()
	}
	err := p.readPlan()
	switch { // another version of Sluice, or a person, has written the status
	case err == nil:
	case p.status.Verb != api.FleetVerbRelease && p.status.Release != nil: // clusters go back without a plan
		p.spec, p.status.Waves, p.status.Wave = Spec{Clusters: labels.Everything(), MaxFailed: -1}, nil, 0
	default:
		p.setPhase(api.FleetPhaseStalled, "InvalidStatus", fmt.Sprintf("The status is not valid: %v; set another spec.release to begin another release", err))
		return false
	}
	return true
}

// readPlan reads the plan of the release from the status, and checks that the waves of the status belong to it.
func (p *planner) readPlan() (err error) {
	if p.status.Plan == nil {
		return errors.New("it has a release without a plan")
	}
	if p.spec, err = Parse(*p.status.Plan); err != nil {
		return err
	}
	if n := len(p.status.Waves); n > len(p.spec.Waves) || int(p.status.Wave) != n {
		return fmt.Errorf("it has %d waves, the wave under way is %d, and the plan has %d waves", n, p.status.Wave, len(p.spec.Waves))
	}
	return nil
}

// beginRelease begins a new epoch with the version of spec.release. A version that a person has not unblocked begins as well: it stalls, and its
// old version gets no further step. A pause that a person has asked for stays.
func (p *planner) beginRelease() {
	release := p.seen.Release.DeepCopy()
	if p.status.Release != nil && p.status.Verb == api.FleetVerbRelease && p.status.Phase != api.FleetPhaseSucceeded {
		by := release.Key()
		if by == p.key() { // with other images
			by = "another release of it"
		}
		p.record(string(p.status.Phase), "Superseded", "NewVersion", "the release of "+p.key()+" is superseded by "+by, "")
	}
	p.beginEpoch(api.FleetVerbRelease)
	p.status.Began = p.status.Epoch
	p.status.Release, p.status.Plan = release, p.seen.Spec.Written.DeepCopy()
	p.status.Wave, p.status.Waves = 0, nil
	p.status.Skipped, p.status.Retries, p.status.Promoted, p.status.SkipSoak, p.status.SkipAnalyses = nil, nil, 0, false, nil
	p.record(string(p.status.Phase), "Begun", "NewVersion", "the release of "+release.Key()+" begins", "")
}

// beginEpoch gives the epoch a number that no member has seen, also if this hub was restored or made again.
func (p *planner) beginEpoch(verb api.FleetVerb) {
	highest := p.status.Epoch
	if !p.absurdEpoch(p.seen.LastOrder.Epoch) {
		highest = max(highest, p.seen.LastOrder.Epoch)
	}
	for _, r := range p.seen.Reports {
		if !p.absurdEpoch(r.Epoch) {
			highest = max(highest, r.Epoch) // also of a member that has left: no epoch comes back
		}
	}
	for _, b := range p.status.Blocked {
		highest = max(highest, b.Epoch)
	}
	for _, t := range p.seen.Targets {
		highest = max(highest, t.Permit.Epoch)
	}
	p.status.Epoch, p.status.Verb = max(highest+1, p.now.Unix()), verb
}

// mergeReports takes in what members know and the hub has forgotten: versions that were withdrawn, and permits that were given.
func (p *planner) mergeReports() {
	last, plans := p.seen.LastOrder, p.selectors()
	restored := p.status.Epoch > 0 && p.known().Before(last) && !p.absurdEpoch(last.Epoch)
	for _, name := range slices.Sorted(maps.Keys(p.seen.Reports)) {
		r := p.seen.Reports[name]
		if p.absurdEpoch(r.Epoch) || !p.concerns(name, plans) {
			continue
		}
		for _, block := range r.Blocked {
			if !block.Unblocked && !p.absurdEpoch(block.Epoch) { // a member cannot unblock
				p.mergeBlock(block)
			}
		}
		restored = restored || p.status.Epoch > 0 && p.known().Before(r.Number())
	}
	if restored {
		p.status.Restored = true
		p.beginEpoch(p.status.Verb)
		p.record(string(p.status.Phase), string(api.FleetPhaseStalled), "HubRestored", "members have newer permits than this hub remembers", "")
	}
}

// selectors are those of the plans that the release has, and that the next one would have.
func (p *planner) selectors() (list []labels.Selector) {
	if p.seen.SpecProblem == "" && p.seen.Spec.Clusters != nil {
		list = append(list, p.seen.Spec.Clusters)
	}
	if p.status.Plan != nil {
		if plan, err := Parse(*p.status.Plan); err == nil {
			list = append(list, plan.Clusters)
		}
	}
	return list
}

// concerns reports whether a member belongs to a release: it has had a permit, or a plan selects it. Others cannot stop the release.
func (p *planner) concerns(name string, plans []labels.Selector) bool {
	_, permitted := p.seen.Targets[name]
	m, is := p.seen.Members[name]
	return permitted || is && slices.ContainsFunc(plans, func(s labels.Selector) bool { return s.Matches(m.Labels) })
}

// known returns the highest permit that this hub remembers.
func (p *planner) known() api.PermitNumber {
	return api.PermitNumber{Epoch: p.status.Epoch, Seq: p.grantSeq()}
}

// absurdEpoch reports whether no hub has given an epoch: it is far beyond the time and the epoch of this hub.
func (p *planner) absurdEpoch(epoch int64) bool {
	return epoch > max(p.now.Unix(), p.status.Epoch)+maxEpochLead
}

func (p *planner) grantSeq() int64 {
	if p.status.Grant == nil {
		return 0
	}
	return p.status.Grant.Seq
}

// key returns the name of the version of the release.
func (p *planner) key() string { return p.status.Release.Key() }

// wakeAt makes the executor plan again at that time, or earlier.
func (p *planner) wakeAt(t time.Time) {
	if p.wake.IsZero() || t.Before(p.wake) {
		p.wake = t
	}
}

// elapsed reports whether a duration has passed since a time, and else makes the executor plan again when it has.
func (p *planner) elapsed(since time.Time, d time.Duration) bool {
	if end := since.Add(d); p.now.Before(end) {
		p.wakeAt(end)
		return false
	}
	return true
}

// setPhase sets the phase of the release, and records a change of it.
func (p *planner) setPhase(phase api.FleetPhase, reason, message string) {
	if p.status.Phase != phase || p.status.Reason != reason {
		p.record(string(p.status.Phase), string(phase), reason, message, "")
	}
	p.status.Phase, p.status.Reason, p.status.Message = phase, reason, message
}

// record adds a transition to the outbox.
func (p *planner) record(from, to, reason, message, actor string) {
	version := ""
	if p.status.Release != nil {
		version = p.key()
	}
	p.status.TransitionSeq++
	p.status.Transitions = append(p.status.Transitions, api.FleetTransition{
		Seq: p.status.TransitionSeq, Time: p.microNow(), From: from, To: to, Wave: p.status.Wave, Reason: reason, Message: message, Actor: actor,
		Epoch: p.status.Epoch, Began: p.status.Began, Version: version,
	})
	p.status.Transitions = latest(p.status.Transitions, api.MaxTransitions)
}

// latest returns at most n elements of a list, the last ones.
func latest[T any](list []T, n int) []T { return list[max(0, len(list)-n):] }

func (p *planner) microNow() metav1.MicroTime {
	return metav1.NewMicroTime(p.now.Truncate(time.Microsecond))
}
