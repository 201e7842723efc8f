package fleet

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// This file judges the commits of each cluster by the permits that the hub had committed before.

// memberState is the Rollout of one cluster after some of its writes.
type memberState struct {
	cluster string
	// rollout is nil if it does not exist.
	rollout *api.Rollout
	// commits are all states that executors have committed, with the version of each commit.
	commits []commit
	// used says which release has used each permit.
	used map[api.PermitNumber]use
}

// use is a release that has used a permit.
type use struct {
	rollout, workload types.UID
	release           int64
}

// commit is a status that an executor has committed.
type commit struct {
	version  int64
	received time.Time
	status   api.RolloutStatus
}

func (m *memberState) state() rollout.State {
	if m.rollout == nil || m.rollout.Status.Sluice == nil {
		return ""
	}
	return rollout.State(m.rollout.Status.Sluice.State)
}

func (m *memberState) pausedOrReady() bool {
	return m.state() == rollout.StatePaused || m.state() == rollout.StateReady || m.state() == rollout.StateCompleted
}

// ranWhole reports whether all pods of the cluster have run a version while it had a permit for it.
func (m *memberState) ranWhole(key string, began int64) bool {
	return slices.ContainsFunc(m.commits, func(c commit) bool {
		f := c.status.Fleet
		return f != nil && f.Permit != nil && f.Permit.Epoch >= began && f.Permit.Version == key && len(f.Served) > 0 && f.Served[0].Named(key)
	})
}

// runs reports whether the cluster runs a version, or is under way to it.
func (m *memberState) runs(key string) bool {
	if m.rollout == nil || m.rollout.Status.Fleet == nil {
		return false
	}
	f := m.rollout.Status.Fleet
	return len(f.Served) > 0 && f.Served[0].Named(key) || m.state().InStep() && f.Releasing.Named(key)
}

func (j *judge) takeRollout(m *memberState, w world.Write) {
	next := &api.Rollout{}
	if !decode(j, w, next) {
		if w.Verb == "delete" && m.rollout != nil && len(m.rollout.Finalizers) == 0 {
			m.rollout = nil
		}
		return
	}
	before := m.rollout
	m.rollout = next
	if next.DeletionTimestamp != nil && len(next.Finalizers) == 0 {
		m.rollout = nil
		return
	}
	if w.Subresource != "status" || w.User != api.DefaultInstallation().ExecutorUser() || next.Status.Sluice == nil {
		return
	}
	m.commits = append(m.commits, commit{w.Version, w.Received, next.Status})
	was := api.RolloutStatus{}
	if before != nil && before.UID == next.UID {
		was = before.Status
	}
	j.judgeCommit(m, w, was, next)
}

// judgeCommit judges what an executor has committed after was.
func (j *judge) judgeCommit(m *memberState, w world.Write, was api.RolloutStatus, next *api.Rollout) {
	is := next.Status
	f := is.Fleet
	if f == nil {
		return
	}
	j.judgePermit(m, w, was.Fleet, f)
	if u := f.Used; u != nil && u.Epoch > 0 && u.Release > 0 {
		now := use{next.UID, u.WorkloadUID, u.Release}
		if before, used := m.used[u.Number()]; used && before != now {
			j.breach(w, "PermitBeginsOneRelease", "permit %v of %s was used by the release %+v, and by %+v", u.Number(), m.cluster, before, now)
		}
		m.used[u.Number()] = now
	}
	if step := entered(was.Sluice, is.Sluice); step > 0 {
		j.judgeStep(m, w, step, next)
	}
	j.judgeServed(m, w, was.Fleet, is)
}

// judgePermit judges the permit that a cluster has taken in.
func (j *judge) judgePermit(m *memberState, w world.Write, was, is *api.RolloutFleetStatus) {
	p := is.Permit
	if p == nil {
		return
	}
	if was != nil && was.FleetRollout == is.FleetRollout && p.Number().Before(was.Permit.Number()) {
		j.breach(w, "EpochAndSeqNeverFall", "%s has taken in permit %v after %v", m.cluster, p.Number(), was.Permit.Number())
	}
	if p.Seq == 0 && p.Verb == api.FleetVerbHold {
		return // of a FleetRollout that was deleted
	}
	given, known := j.permits[m.cluster][p.Number()]
	if !known && j.permitInDoubt[m.cluster] {
		return
	}
	if !known || given.Verb != p.Verb || given.Version != p.Version || given.Revision != p.Revision || given.HoldAt != p.HoldAt || given.PlanHash != p.PlanHash {
		j.breach(w, "PermitOfTheHub", "%s has taken in permit %+v, and the hub has written %+v", m.cluster, *p, given)
	}
}

// entered returns the step that a commit enters, one beyond all steps for the completion, 0 for none.
func entered(was, is *api.SluiceStatus) int32 {
	if was == nil {
		was = &api.SluiceStatus{}
	}
	before, now := rollout.State(was.State), rollout.State(is.State)
	switch {
	case now.InStep() && (!before.InStep() || is.Step > was.Step || is.Epoch != was.Epoch):
		return is.Step
	case now == rollout.StateFinalising && is.FinaliseReason == api.FinaliseSuccess && before.InStep():
		return is.Step + 1
	}
	return 0
}

// judgeStep judges a step by the permit in the same commit.
func (j *judge) judgeStep(m *memberState, w world.Write, step int32, next *api.Rollout) {
	s, f := next.Status.Sluice, next.Status.Fleet
	breach := func(format string, args ...any) {
		j.breach(w, "NothingBeyondThePermit", "%s enters step %d of release %d: "+format, append([]any{m.cluster, step, s.Epoch}, args...)...)
	}
	back := len(f.Served) > 1 && f.Served[1].Revision == s.CanaryRevision
	if next.Spec.Fleet == nil || s.RollbackReplicas > 0 || back || f.Override != nil && f.Override.Release == s.Epoch {
		return
	}
	if blocks(f.Blocked, f.Releasing.Keys()...) {
		j.breach(w, "WithdrawnVersionStaysOut", "%s enters step %d of release %d of %v, which it blocks", m.cluster, step, s.Epoch, f.Releasing.Keys())
	}
	p, steps := f.Permit, int32(0)
	if next.Spec.Strategy.Canary != nil {
		steps = int32(len(next.Spec.Strategy.Canary.Steps))
	}
	switch {
	case p == nil || p.Verb != api.FleetVerbRelease:
		breach("its permit is %+v", p)
	case !permits(p, f.Releasing) || f.Releasing.Revision != s.CanaryRevision:
		breach("its permit is for %s (%s), and it releases %v (%s)", p.Version, p.Revision, f.Releasing.Keys(), s.CanaryRevision)
	case p.HoldAt > 0 && step > min(p.HoldAt, steps):
		breach("its permit goes up to step %d", p.HoldAt)
	case p.NotAfter != nil && w.Received.After(p.NotAfter.Add(permitSkew+j.skews[m.cluster])):
		breach("its permit has ended at %s", p.NotAfter)
	case f.Used == nil || f.Used.Number() != p.Number() || f.Used.Release != s.Epoch:
		breach("it has recorded the use %+v of permit %v", f.Used, p.Number())
	}
}

// permits reports whether a permit is for a version: for its template, or for its images.
func permits(p *api.FleetPermit, version api.FleetVersion) bool {
	if len(p.Images) > 0 {
		return p.Revision == "" && version.Named(p.Version) && version.Images == api.FleetImagesDigest(p.Images)
	}
	return p.Revision == version.Revision && version.Named(p.Version)
}

// judgeServed judges a version that all pods of a cluster run from now on.
func (j *judge) judgeServed(m *memberState, w world.Write, was *api.RolloutFleetStatus, is api.RolloutStatus) {
	f := is.Fleet
	if was == nil || len(was.Served) == 0 || len(f.Served) == 0 || f.Unpermitted != "" {
		return
	}
	served := f.Served[0]
	known := slices.ContainsFunc(was.Served, func(v api.FleetVersion) bool { return v.Revision == served.Revision })
	used := f.Used != nil && f.Used.Revision == served.Revision
	permitted := f.Permit != nil && f.Permit.Verb == api.FleetVerbRelease && permits(f.Permit, served)
	if !known && !used && !permitted && f.Override == nil {
		j.breach(w, "NothingBeyondThePermit", "all pods of %s run %v, which no permit has let through, and the status does not say so", m.cluster, served)
	}
}
