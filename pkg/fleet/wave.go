package fleet

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// planRelease brings the version into the clusters, wave by wave.
func (p *planner) planRelease() {
	p.grant(api.FleetVerbWithdraw, 0, 0, p.clustersInNeed(p.needsWithdrawal)) // of a withdrawal that a new release has overtaken
	if back := p.clustersToReturn(p.needsAbort); len(back) > 0 {
		p.grant(api.FleetVerbAbort, 0, 0, back)
		p.setPhase(api.FleetPhaseProgressing, "Superseding", fmt.Sprintf("%s: %s",
			countText(len(back), "cluster goes back from a version that it may not finish", "clusters go back from a version that they may not finish"), listNames(back)))
		return
	}
	if p.withdrawOnFailure() {
		return
	}
	p.joinClusters()
	p.renewPermits()
	if stop := p.obstacle(); stop != nil {
		if stop.holds {
			p.grant(api.FleetVerbHold, 0, 0, p.clustersInNeed(p.needsHold))
		}
		p.setPhase(stop.phase, stop.reason, stop.message)
		return
	}
	p.grant(api.FleetVerbRelease, 0, 0, p.followers())
	for !p.granted && int(p.status.Wave) <= len(p.spec.Waves) {
		if !p.waveRuns() {
			if int(p.status.Wave) == len(p.spec.Waves) {
				p.setPhase(api.FleetPhaseSucceeded, "Completed", p.successMessage())
				return
			}
			p.beginWave()
			continue
		}
		if !p.planWave() {
			return
		}
	}
}

// wave returns the wave under way.
func (p *planner) wave() *api.FleetWaveStatus { return &p.status.Waves[p.status.Wave-1] }

// waveRuns reports whether the wave under way has begun and has not ended.
func (p *planner) waveRuns() bool { return p.status.Wave > 0 && !waveEnded(*p.wave()) }

// waveEnded reports whether the next wave may begin.
func waveEnded(w api.FleetWaveStatus) bool {
	return w.Stage == api.FleetWavePassed || w.Stage == api.FleetWaveSkipped
}

// undrawn reports whether a member belongs to the release, and no wave has drawn it.
func (p *planner) undrawn(c *cluster) bool {
	return c.wave == 0 && c.member != nil && p.spec.Clusters.Matches(c.member.Labels)
}

// beginWave draws the clusters of the next wave.
func (p *planner) beginWave() {
	p.status.Wave++
	spec := p.spec.Waves[p.status.Wave-1]
	var left []string
	for _, name := range p.names {
		if c := p.clusters[name]; p.undrawn(c) && spec.selects(c.member.Labels) {
			left = append(left, name)
		}
	}
	p.sortByDraw(left)
	if spec.Percent > 0 && len(left) > 0 {
		left = left[:Amount{Value: spec.Percent, Percent: true}.RoundUp(len(left))]
	}
	stage := api.FleetWaveGoing
	if spec.HoldAt > 0 {
		stage = api.FleetWaveToHold
	}
	p.status.Waves = append(p.status.Waves, api.FleetWaveStatus{Name: spec.Name, Stage: stage, Since: p.microNow(), Began: p.microNow(), DeliveryFrom: p.microNow(), Clusters: left, Size: int32(len(left))})
	for _, name := range left {
		p.setWave(p.clusters[name], p.status.Wave)
	}
	p.record("", string(stage), "WaveBegun", fmt.Sprintf("wave %d (%s) begins with %s", p.status.Wave, spec.Name, countText(len(left), "cluster", "clusters")), "")
}

// sizeOf returns the number of clusters that the percentages of a wave are about. Clusters that join later do not change it.
func sizeOf(w api.FleetWaveStatus) int { return cmp.Or(int(w.Size), len(w.Clusters)) }

// setWave puts a cluster into a wave, on which its phase may depend.
func (p *planner) setWave(c *cluster, wave int32) {
	c.wave = wave
	p.readCluster(c)
}

// sortByDraw sorts clusters by the SHA-256 digest over the UID of the FleetRollout, NUL and the name of the cluster. So each release has an order
// of its own that does not depend on names.
func (p *planner) sortByDraw(names []string) {
	place := make(map[string]string, len(names))
	for _, name := range names {
		sum := sha256.Sum256([]byte(p.seen.UID + "\x00" + name))
		place[name] = string(sum[:])
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(place[a], place[b]) })
}

// joinClusters puts clusters that joined after the draw into the wave under way if they match it, and else into the last wave once that has begun.
func (p *planner) joinClusters() {
	if p.status.Wave == 0 {
		return
	}
	last := len(p.status.Waves) == len(p.spec.Waves)
	spec := p.spec.Waves[p.status.Wave-1]
	for _, name := range p.names {
		c := p.clusters[name]
		if p.undrawn(c) && (last || p.waveRuns() && spec.Percent == 0 && spec.selects(c.member.Labels)) {
			p.wave().Clusters, p.wave().DeliveryFrom = append(p.wave().Clusters, name), p.microNow()
			p.setWave(c, p.status.Wave)
		}
	}
}

// planWave plans the wave under way. It reports whether the wave has reached another stage.
func (p *planner) planWave() bool {
	w, spec := p.wave(), p.spec.Waves[p.status.Wave-1]
	switch w.Stage {
	case api.FleetWaveToHold:
		if !p.waveSettled(atHold) {
			p.grantWave(spec.HoldAt)
			return false
		}
		if p.countPhase(w, api.FleetTargetAtHold) > 0 {
			return p.enterStage(api.FleetWaveHoldSoak, "AtHold")
		}
		// The hub must not let a cluster that comes back, or tries again, pass a hold that no person has approved.
		return p.proven(w, spec) && p.enterPause(api.FleetWaveHoldPause, spec.HoldPause)
	case api.FleetWaveHoldSoak:
		if !p.waveSettled(atHold) { // a cluster has joined, or tries again
			p.grantWave(spec.HoldAt)
			return false
		}
		if !p.holdSoaked(w) {
			p.setPhase(api.FleetPhaseSoaking, "HoldSoak", fmt.Sprintf("the clusters of wave %s soak at step %d", w.Name, spec.HoldAt))
			return false
		}
		return p.enterPause(api.FleetWaveHoldPause, spec.HoldPause)
	case api.FleetWaveHoldPause:
		return p.pauseOver(spec.HoldPause) && p.enterStage(api.FleetWaveGoing, "GoesOn")
	case api.FleetWaveGoing:
		if !p.waveSettled(ended) {
			p.grantWave(0)
			return false
		}
		return p.proven(w, spec) && p.enterPause(api.FleetWavePause, spec.Pause)
	case api.FleetWavePause:
		return p.pauseOver(spec.Pause) && p.enterStage(api.FleetWavePassed, "Passed")
	}
	p.setPhase(api.FleetPhaseStalled, "UnknownStage", fmt.Sprintf("the stage %q of wave %s is not known to this version of Sluice; run the version that wrote it, or a newer one", w.Stage, w.Name))
	return false
}

// proven reports whether enough clusters of the wave have completed. If not, it stalls the release.
func (p *planner) proven(w *api.FleetWaveStatus, spec Wave) bool {
	n := p.countPhase(w, api.FleetTargetCompleted)
	if n < spec.MinCompleted {
		p.setPhase(api.FleetPhaseStalled, "NothingProven", fmt.Sprintf(
			"%s of wave %s %s completed, and %s needed before the next wave; bring clusters back, or pass over the wave: sluice fleet skip %s -n %s",
			countText(n, "cluster", "clusters"), w.Name, agree(n, "has", "have"), countText(spec.MinCompleted, "is", "are"), p.seen.Name, p.seen.Namespace))
		return false
	}
	return true
}

func (p *planner) enterStage(stage api.FleetWaveStage, reason string) bool {
	return p.enterDescribed(stage, reason, "is in stage "+string(stage))
}

// enterDescribed enters a stage, and records what the wave then does.
func (p *planner) enterDescribed(stage api.FleetWaveStage, reason, does string) bool {
	w := p.wave()
	p.record(string(w.Stage), string(stage), reason, fmt.Sprintf("wave %d (%s) %s", p.status.Wave, w.Name, does), "")
	w.Stage, w.Since = stage, p.microNow()
	return true
}

// enterPause begins a new pause, to which an approval or a rejection belongs.
func (p *planner) enterPause(stage api.FleetWaveStage, pause Pause) bool {
	if !pause.Waits() {
		return p.enterDescribed(stage, "Reached", "has no pause")
	}
	p.status.PauseSeq++
	return p.enterStage(stage, "Reached")
}

// pauseOver reports whether a pause of the wave has ended: by an approval, a promotion or its time.
func (p *planner) pauseOver(pause Pause) bool {
	w := p.wave()
	switch {
	case !pause.Waits() || p.status.Wave <= p.status.Promoted:
		return true
	case pause.Manual && p.decision() == api.DecisionApprove:
		return true
	case pause.Manual:
		p.setPhase(api.FleetPhaseWaiting, "Approval", fmt.Sprintf("wave %s waits for approval: sluice fleet approve %s -n %s", w.Name, p.seen.Name, p.seen.Namespace))
		return false
	case p.elapsed(w.Since.Time, pause.Duration):
		return true
	}
	p.setPhase(api.FleetPhasePaused, "Duration", fmt.Sprintf("wave %s waits until %s", w.Name, w.Since.Add(pause.Duration).UTC().Format(time.RFC3339)))
	return false
}

// decision returns the last decision about the pause under way, "" without one.
func (p *planner) decision() api.Decision {
	for _, a := range slices.Backward(p.status.Approvals) {
		if a.Epoch >= p.status.Began && a.PauseSeq == p.status.PauseSeq {
			return a.Decision
		}
	}
	return ""
}

// holdSoaked reports whether all clusters at the hold have soaked.
func (p *planner) holdSoaked(w *api.FleetWaveStatus) bool {
	return p.countClusters(*w, func(c *cluster) bool { return c.phase == api.FleetTargetAtHold && !c.soaked }) == 0
}

// ended reports whether a cluster neither is under way nor may begin.
func ended(c *cluster) bool {
	switch c.phase {
	case api.FleetTargetPermitted, api.FleetTargetProgressing, api.FleetTargetAtHold, api.FleetTargetSoaking, api.FleetTargetUnknown,
		api.FleetTargetAwaitingDelivery, api.FleetTargetPending:
		return false
	}
	return true
}

// atHold reports whether a cluster has come as far as the hold of its wave lets it.
func atHold(c *cluster) bool {
	return ended(c) || c.phase == api.FleetTargetSoaking || c.phase == api.FleetTargetAtHold && c.target.Permit.Verb == api.FleetVerbRelease
}

// waveSettled reports whether all clusters of the wave are settled, and none is to try again.
func (p *planner) waveSettled(settled func(*cluster) bool) bool {
	for _, name := range p.wave().Clusters {
		if c := p.clusters[name]; !settled(c) || p.retried(c) && p.mayBegin(c) {
			return false
		}
	}
	return true
}

func (p *planner) countPhase(w *api.FleetWaveStatus, phase api.FleetTargetPhase) int {
	return p.countClusters(*w, func(c *cluster) bool { return c.phase == phase })
}

// grantWave gives permits to the next clusters of the wave, as far as its concurrency goes.
func (p *planner) grantWave(holdAt int32) {
	w, spec := p.wave(), p.spec.Waves[p.status.Wave-1]
	l := p.lineUp(w.Clusters, holdAt)
	p.grant(api.FleetVerbRelease, holdAt, p.status.Wave, l.clusters(spec.MaxConcurrency.RoundUp(sizeOf(*w))))
	p.describeWave(w, l)
}

// line has clusters in the order of their permits.
type line struct {
	// busy is how many may be under way, those of again included.
	busy int
	// again are under way, or may be, and get a new permit without another slot. The clusters of next need a slot.
	again, next []string
	// waiting is how many wait until the version has arrived.
	waiting int
}

// clusters returns those that get a permit now.
func (l line) clusters(concurrency int) []string {
	return append(l.again, l.next[:max(0, min(concurrency-l.busy, len(l.next)))]...)
}

// lineUp finds out which clusters may get a permit up to holdAt. Clusters that a person told to try again come first.
func (p *planner) lineUp(names []string, holdAt int32) (l line) {
	retried := 0
	for _, name := range names {
		c := p.clusters[name]
		switch {
		case p.overtaken(c):
			l.busy++
			l.again = append(l.again, name)
		case c.underWay() || p.late(c):
			l.busy++
		case p.mayGoOn(c, holdAt) && p.retried(c): // a person waits for it
			l.next = slices.Insert(l.next, retried, name)
			retried++
		case p.mayGoOn(c, holdAt):
			l.next = append(l.next, name)
		case c.phase == api.FleetTargetAwaitingDelivery:
			l.waiting++
		}
	}
	return l
}

func (p *planner) describeWave(w *api.FleetWaveStatus, l line) {
	soaking := p.countPhase(w, api.FleetTargetSoaking)
	idle := l.busy == 0 && len(l.next) == 0
	switch {
	case idle && soaking > 0 && l.waiting == 0:
		p.setPhase(api.FleetPhaseSoaking, "Soak", fmt.Sprintf("%s of wave %s %s", countText(soaking, "cluster", "clusters"), w.Name, agree(soaking, "soaks", "soak")))
	case idle && l.waiting > 0:
		p.setPhase(api.FleetPhaseWaiting, "Delivery", fmt.Sprintf("%s of wave %s %s until the version has arrived%s",
			countText(l.waiting, "cluster", "clusters"), w.Name, agree(l.waiting, "waits", "wait"), p.needsOfWave(w)))
	default:
		p.setPhase(api.FleetPhaseProgressing, "Wave", fmt.Sprintf("wave %s is under way%s", w.Name, p.needsOfWave(w)))
	}
}

// needsOfWave says which clusters of a wave need a person, and what a person can do; "" if none does.
func (p *planner) needsOfWave(w *api.FleetWaveStatus) string {
	var list []string
	add := func(what string, needs func(*cluster) bool) {
		var names []string
		for _, name := range w.Clusters {
			if needs(p.clusters[name]) {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			list = append(list, fmt.Sprintf(what, listNames(names), p.seen.Name, p.seen.Namespace))
		}
	}
	add("the hub has lost %s; bring clusters back, or pass over them: sluice fleet skip %s CLUSTER -n %s", func(c *cluster) bool { return c.phase == api.FleetTargetUnknown })
	add("the steps were changed in %s; to go on with the new ones: sluice fleet retry %s CLUSTER -n %s", func(c *cluster) bool { return c.reason == api.FleetReasonPlanChanged })
	add("the version does not name the change in %s; give the workload another version, or pass over the cluster: sluice fleet skip %s CLUSTER -n %s",
		func(c *cluster) bool { return c.reason == reasonNoIdentity })
	add("a person must act in %s: sluice fleet targets %s -n %s", func(c *cluster) bool {
		return c.report != nil && c.report.AwaitsPerson && c.reason != api.FleetReasonPlanChanged && c.underWay()
	})
	if len(list) == 0 {
		return ""
	}
	return "; " + strings.Join(list, "; ")
}

// overtaken reports whether a cluster may be under way although its last permit says nothing about that: the permit is older than the epoch, the hub
// has forgotten it, it is an order to hold that the cluster has not answered, or a person has told the cluster since to skip analyses. It goes on by a new permit.
func (p *planner) overtaken(c *cluster) bool {
	if c.reason == reasonForgotten || c.reason == api.FleetReasonPlanChanged && p.retried(c) {
		return true
	}
	return p.permitted(c) && c.underWay() && c.phase != api.FleetTargetUnknown &&
		(c.target.Permit.Epoch < p.status.Epoch || c.target.Permit.Verb == api.FleetVerbHold || !slices.Equal(c.target.Permit.SkipAnalyses, p.skippedAnalyses(c)))
}

// mayGoOn reports whether a cluster may get a permit up to holdAt.
func (p *planner) mayGoOn(c *cluster, holdAt int32) bool {
	if c.phase == api.FleetTargetAtHold {
		return c.target.Permit.Verb == api.FleetVerbHold || holdAt == 0 && c.target.Permit.HoldAt > 0
	}
	return (c.phase == api.FleetTargetPending || p.retried(c)) && p.mayBegin(c)
}

// mayBegin reports whether a cluster that is not under way may get a permit.
func (p *planner) mayBegin(c *cluster) bool {
	if c.member == nil {
		return false
	}
	phase, reason := p.phaseBeforePermit(c)
	return phase == api.FleetTargetPending && reason == reasonEligible
}

// followers lists clusters of passed waves that were deferred and have come back, as far as the concurrency of the last wave goes.
func (p *planner) followers() []string {
	var names []string
	for _, w := range p.status.Waves {
		if waveEnded(w) {
			names = append(names, w.Clusters...)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return p.lineUp(names, 0).clusters(p.spec.Waves[len(p.spec.Waves)-1].MaxConcurrency.RoundUp(sizeOf(*p.wave())))
}

func (p *planner) successMessage() string {
	var deferred []string
	for _, name := range p.names {
		switch p.clusters[name].phase {
		case api.FleetTargetDeferred, api.FleetTargetAwaitingDelivery, api.FleetTargetUnknown:
			deferred = append(deferred, name)
		}
	}
	if len(deferred) == 0 {
		return "All waves have passed"
	}
	return fmt.Sprintf("All waves have passed; %s: %s",
		countText(len(deferred), "cluster is deferred and follows when it comes back", "clusters are deferred and follow when they come back"), listNames(deferred))
}
