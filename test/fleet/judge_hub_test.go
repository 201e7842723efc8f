package fleet

import (
	"slices"
	"time"

	"sluice.dev/sluice/pkg/api"
	plans "sluice.dev/sluice/pkg/fleet"
	"sluice.dev/sluice/test/world"
)

// This file judges the writes of the hub.

// permitSkew is how far the clocks of clusters may be apart.
const permitSkew = 2 * time.Minute

func (j *judge) takeFleetRollout(w world.Write) {
	next := &api.FleetRollout{}
	if !decode(j, w, next) {
		return
	}
	before := j.rollout
	j.rollout = next
	if before == nil || before.UID != next.UID {
		clear(j.targets) // those of the one before are being deleted
		before = &api.FleetRollout{}
	}
	if w.Subresource != "status" || w.User != api.DefaultInstallation().ExecutorUser() || j.restored[next.ResourceVersion] {
		return
	}
	was, is := before.Status, next.Status
	if is.Epoch < was.Epoch || number(is.Grant).Before(number(was.Grant)) || number(is.Grant).Seq < number(was.Grant).Seq || is.PauseSeq < was.PauseSeq {
		j.breach(w, "EpochAndSeqNeverFall", "epoch %d, grant %v and pause %d follow epoch %d, grant %v and pause %d",
			is.Epoch, number(is.Grant), is.PauseSeq, was.Epoch, number(was.Grant), was.PauseSeq)
	}
	if number(was.Grant).Before(number(is.Grant)) {
		j.judgeGrant(w, before, next)
	}
	j.noteGrant(is.Grant)
	j.grantInDoubt = false
	for i, wave := range is.Waves {
		if i < len(was.Waves) && was.Waves[i].Stage != api.FleetWavePassed && wave.Stage == api.FleetWavePassed && is.Began == was.Began {
			j.judgeProof(w, is, wave, i)
		}
	}
	if is.Phase == api.FleetPhaseWithdrawn && was.Phase != api.FleetPhaseWithdrawn {
		j.judgeWithdrawn(w, is)
	}
}

func number(g *api.FleetGrant) api.PermitNumber {
	if g == nil {
		return api.PermitNumber{}
	}
	return g.Number()
}

func (j *judge) noteGrant(g *api.FleetGrant) {
	if g != nil {
		j.grants[g.Number()] = *g
	}
}

// judgeGrant judges a grant by what the hub had committed, and by what the clusters had committed themselves at that moment.
func (j *judge) judgeGrant(w world.Write, before, next *api.FleetRollout) {
	was, is := before.Status, next.Status
	g := is.Grant
	if last := was.Grant; last != nil && last.Epoch == g.Epoch {
		for _, cluster := range last.Clusters {
			if t := j.targets[cluster]; (t == nil || t.Spec.Permit.Number().Before(last.Number())) && !slices.Contains(g.Clusters, cluster) && is.Counts[api.FleetTargetLeft] == 0 {
				j.breach(w, "OneGrantAtATime", "grant %v was made before %s had its permit of grant %v", g.Number(), cluster, last.Number())
			}
		}
	}
	if g.Verb != api.FleetVerbRelease {
		return
	}
	if before.Spec.Paused || is.Paused || is.Restored {
		j.breach(w, "NoGrantWhilePaused", "grant %v was made: spec.paused %t, status.paused %t, restored %t", g.Number(), before.Spec.Paused, is.Paused, is.Restored)
	}
	if n := len(is.Approvals); n > 0 && is.Approvals[n-1].Decision == api.DecisionReject && is.Approvals[n-1].Epoch >= is.Began {
		j.breach(w, "NoGrantWhilePaused", "grant %v was made for a release that %s has rejected", g.Number(), is.Approvals[n-1].Actor)
	}
	if blocks(is.Blocked, is.Release.Key()) {
		j.breach(w, "BlockedVersionGetsNoPermit", "grant %v is for %s", g.Number(), is.Release.Key())
	}
	plan, err := plans.Parse(*is.Plan)
	if err != nil {
		j.breach(w, "Readable", "the plan of the release: %v", err)
		return
	}
	j.judgeBudgets(w, was, is, plan)
	if g.Wave > 0 {
		j.judgeLimit(w, is, plan)
	}
}

// judgeLimit counts the clusters of the wave that can go forward, those of the grant included.
func (j *judge) judgeLimit(w world.Write, is api.FleetRolloutStatus, plan plans.Spec) {
	g, wave := is.Grant, is.Waves[is.Grant.Wave-1]
	var busy []string
	for _, cluster := range wave.Clusters {
		if slices.Contains(g.Clusters, cluster) || !slices.Contains(is.Skipped, cluster) && j.mayGoForward(cluster, w.Received) {
			busy = append(busy, cluster)
		}
	}
	if limit := plan.Waves[g.Wave-1].MaxConcurrency.RoundUp(len(wave.Clusters)); len(busy) > limit {
		j.breach(w, "GrantsKeepWithinLimits", "with grant %v, %v may go forward, and the limit is %d", g.Number(), busy, limit)
	}
}

// mayGoForward reports whether a cluster can still go forward under its last permit, as its own audit log says.
func (j *judge) mayGoForward(cluster string, now time.Time) bool {
	t, m := j.targets[cluster], j.states[cluster]
	if t == nil || m == nil || m.rollout == nil || m.rollout.Spec.Fleet == nil {
		return false
	}
	permit := j.lastForward(cluster)
	if permit == nil || permit.NotAfter != nil && now.After(permit.NotAfter.Add(permitSkew)) {
		return false
	}
	f := m.rollout.Status.Fleet
	if f == nil || f.Permit.Number().Before(permit.Number()) {
		return true
	}
	if f.Permit.Verb != api.FleetVerbRelease || f.Used != nil && f.Used.Failure != "" && !f.Used.Number().Before(permit.Number()) {
		return false
	}
	done := len(f.Served) > 0 && f.Served[0].Revision == permit.Revision && !m.state().InStep()
	held := permit.HoldAt > 0 && m.rollout.Status.Sluice.Step >= permit.HoldAt && m.pausedOrReady()
	return !done && !held
}

// lastForward returns the last permit of a cluster that lets it go forward, nil for none.
func (j *judge) lastForward(cluster string) *api.FleetPermit {
	var last *api.FleetPermit
	for _, p := range j.permits[cluster] {
		if p.Verb == api.FleetVerbRelease && last.Number().Before(p.Number()) {
			last = &p
		}
	}
	return last
}

// judgeBudgets counts the failed clusters that the hub had recorded before it made the grant.
func (j *judge) judgeBudgets(w world.Write, was, is api.FleetRolloutStatus, plan plans.Spec) {
	for i, wave := range is.Waves {
		var failed []string
		for _, cluster := range wave.Clusters {
			t := j.targets[cluster]
			if t != nil && t.Spec.Permit.Epoch >= is.Began && t.Status.Phase == api.FleetTargetFailed && t.Status.Failure != "" &&
				!slices.Contains(is.Skipped, cluster) && !slices.Contains(is.Grant.Clusters, cluster) && !slices.Contains(was.Retries, cluster) {
				failed = append(failed, cluster)
			}
		}
		if limit := plan.Waves[i].Failed.RoundDown(len(wave.Clusters)); len(failed) > limit {
			j.breach(w, "NoGrantAboveABudget", "grant %v was made when %v of wave %s had failed, and %d may", is.Grant.Number(), failed, wave.Name, limit)
		}
	}
}

// judgeProof looks for clusters of a wave that run the version whole, by their own audit logs.
func (j *judge) judgeProof(w world.Write, is api.FleetRolloutStatus, wave api.FleetWaveStatus, i int) {
	plan, err := plans.Parse(*is.Plan)
	if err != nil {
		return
	}
	proven := 0
	for _, cluster := range wave.Clusters {
		if m := j.states[cluster]; m != nil && m.ranWhole(is.Release.Key(), is.Began) {
			proven++
		}
	}
	if least := plan.Waves[i].MinCompleted; proven < least {
		j.breach(w, "EachPassedWaveHasProof", "wave %s has passed with %d clusters that run %s, and %d are needed", wave.Name, proven, is.Release.Key(), least)
	}
}

// judgeWithdrawn looks for clusters that run a version that the hub calls withdrawn.
func (j *judge) judgeWithdrawn(w world.Write, is api.FleetRolloutStatus) {
	for cluster, m := range j.states {
		if t := j.targets[cluster]; t == nil || slices.Contains(is.Skipped, cluster) || t.Status.Phase == api.FleetTargetLeft {
			continue
		}
		if m.runs(is.Release.Key()) {
			j.breach(w, "NothingWithdrawnRuns", "%s is withdrawn, and runs in %s", is.Release.Key(), cluster)
		}
	}
}

func (j *judge) takeTarget(w world.Write) {
	next := &api.FleetTarget{}
	if !decode(j, w, next) || w.User != api.DefaultInstallation().ExecutorUser() {
		return
	}
	cluster, permit := next.Spec.Cluster, next.Spec.Permit
	before := j.targets[cluster]
	j.targets[cluster] = next
	if j.permits[cluster] == nil {
		j.permits[cluster] = map[api.PermitNumber]api.FleetPermit{}
	}
	if before != nil && permit.Number().Before(before.Spec.Permit.Number()) {
		j.breach(w, "EpochAndSeqNeverFall", "permit %v of %s follows %v", permit.Number(), cluster, before.Spec.Permit.Number())
	}
	if _, known := j.permits[cluster][permit.Number()]; !known {
		g, granted := j.grants[permit.Number()]
		switch {
		case !granted && j.grantInDoubt:
		case !granted || !slices.Contains(g.Clusters, cluster):
			j.breach(w, "GrantBeforePermit", "%s has permit %v, and no committed grant has it", cluster, permit.Number())
		case permit.Verb == api.FleetVerbRelease && g.Verb != api.FleetVerbRelease, permit.HoldAt != g.HoldAt:
			j.breach(w, "GrantBeforePermit", "permit %v of %s says %s up to step %d, and its grant %s up to step %d", permit.Number(), cluster, permit.Verb, permit.HoldAt, g.Verb, g.HoldAt)
		}
		if permit.Verb == api.FleetVerbRelease && j.rollout != nil && blocks(j.rollout.Status.Blocked, permit.Version) {
			j.breach(w, "BlockedVersionGetsNoPermit", "permit %v of %s is for %s", permit.Number(), cluster, permit.Version)
		}
	}
	j.permits[cluster][permit.Number()], j.permitInDoubt[cluster] = permit, false
	if r := next.Status.Report; permit.Verb == api.FleetVerbWithdraw && r != nil && r.Number() == permit.Number() && r.State == api.FleetReportCompleted {
		if _, known := j.withdrawn[cluster][permit.Version]; !known && j.withdrawn[cluster] != nil {
			j.withdrawn[cluster][permit.Version] = w.Received
		}
	}
}
