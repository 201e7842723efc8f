package crash

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/watch"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// fleetBreaches returns the broken invariants of fleets, as docs/invariants.md names them, and the change that broke each. The
// first cluster is the hub as well, so the order of its changes shows what the hub knew.
func fleetBreaches(eu1, eu2 []change) []string {
	hub := hubLaws{live: objects{}, grants: map[api.PermitNumber]api.FleetGrant{}, permits: map[string][]api.FleetPermit{}}
	for _, c := range eu1 {
		hub.take(c)
	}
	broken := hub.broken
	for name, changes := range map[string][]change{"eu1": eu1, "eu2": eu2} {
		m := memberLaws{name: name, permits: hub.permits[name], live: objects{}, releases: map[api.PermitNumber]int64{}}
		for _, c := range changes {
			m.take(c)
		}
		broken = append(broken, m.broken...)
	}
	return broken
}

// laws that are broken.
type breaks struct{ broken []string }

func (b *breaks) breach(law, format string, args ...any) {
	b.broken = append(b.broken, law+": "+fmt.Sprintf(format, args...))
}

// hubLaws is the state of the hub after some changes.
type hubLaws struct {
	breaks
	live objects
	// grants are all grants, permits all permits by cluster.
	grants  map[api.PermitNumber]api.FleetGrant
	permits map[string][]api.FleetPermit
}

func (h *hubLaws) take(c change) {
	old := h.live[c.key()]
	before, targets := h.live.fleetRollout().Status, h.live.fleetTargets()
	if c.kind == watch.Deleted {
		delete(h.live, c.key())
		return
	}
	h.live[c.key()] = c.object
	switch c.resource {
	case "fleetrollouts":
		h.committed(before, h.live.fleetRollout().Status, targets)
	case "fleettargets":
		cluster := clusterOf(c.object.GetName())
		var last *api.FleetPermit
		if old != nil {
			last = &targets[cluster].Spec.Permit
		}
		h.permitted(cluster, last, h.live.fleetTargets()[cluster].Spec.Permit)
	}
}

// clusterOf returns the cluster in the name of a FleetTarget or of a FleetMember.
func clusterOf(name string) string {
	name, _, _ = strings.Cut(strings.TrimPrefix(name, app+"."), "-")
	return name
}

// committed checks a new status of the FleetRollout.
func (h *hubLaws) committed(old, now api.FleetRolloutStatus, targets map[string]*api.FleetTarget) {
	if now.Epoch < old.Epoch || grantNumber(now).Before(grantNumber(old)) || now.PauseSeq < old.PauseSeq {
		h.breach("EpochAndSeqNeverFall", "epoch %d, grant %+v and pause %d came after %d, %+v and %d", now.Epoch, now.Grant, now.PauseSeq, old.Epoch, old.Grant, old.PauseSeq)
	}
	if g := now.Grant; g != nil && g.Number() != grantNumber(old) {
		h.grants[g.Number()] = *g
		h.granted(old, now, targets)
	}
	if now.Began == old.Began && now.Wave > max(1, old.Wave) {
		h.passed(now, targets)
	}
	if now.Phase == api.FleetPhaseWithdrawn && old.Phase != now.Phase {
		for key, u := range h.live {
			if strings.HasPrefix(key, "pods/") && imageOf(u) == imageOfVersion(now.Release.Version) {
				h.breach("NothingWithdrawnRuns", "%s of eu1 runs %s, which the hub calls withdrawn", key, now.Release.Version)
			}
		}
	}
}

// grantNumber returns the number of the last grant, the zero value for none.
func grantNumber(s api.FleetRolloutStatus) api.PermitNumber {
	if s.Grant == nil {
		return api.PermitNumber{}
	}
	return s.Grant.Number()
}

// granted checks a new grant.
func (h *hubLaws) granted(old, now api.FleetRolloutStatus, targets map[string]*api.FleetTarget) {
	g, last := now.Grant, old.Grant
	if last != nil && last.Epoch == g.Epoch {
		for _, member := range last.Clusters {
			if t := targets[clusterOf(member)]; t == nil || t.Spec.Permit.Number().Before(last.Number()) {
				h.breach("GrantsKeepWithinLimits", "grant %d was made before the permit of %s in grant %d was written", g.Seq, member, last.Seq)
			}
		}
	}
	if g.Verb != api.FleetVerbRelease {
		return
	}
	for _, b := range now.Blocked {
		if !b.Unblocked && b.Version == now.Release.Key() {
			h.breach("BlockedVersionGetsNoPermit", "grant %d permits %s, which is withdrawn", g.Seq, b.Version)
		}
	}
	for cluster, t := range targets {
		if t.Spec.Permit.Epoch < now.Began || slices.ContainsFunc(g.Clusters, func(member string) bool { return clusterOf(member) == cluster }) {
			continue
		}
		if t.Status.Phase == api.FleetTargetFailed {
			h.breach("NoGrantAboveABudget", "grant %d was made although %s has failed", g.Seq, cluster)
		}
		if forward := t.Spec.Permit.Verb == api.FleetVerbRelease || t.Spec.Permit.Verb == api.FleetVerbHold; forward && !h.completed(cluster, t, now.Release.Version) {
			h.breach("GrantsKeepWithinLimits", "grant %d was made although %s is under way", g.Seq, cluster)
		}
	}
}

// passed checks that each passed wave has a cluster with proof, and its approval.
func (h *hubLaws) passed(now api.FleetRolloutStatus, targets map[string]*api.FleetTarget) {
	for _, w := range now.Waves[:now.Wave-1] {
		proven := slices.ContainsFunc(w.Clusters, func(member string) bool {
			t := targets[clusterOf(member)]
			return t != nil && t.Spec.Permit.Epoch >= now.Began && h.completed(clusterOf(member), t, now.Release.Version)
		})
		if !proven {
			h.breach("EachPassedWaveHasProof", "wave %s has passed, and none of %v has completed", w.Name, w.Clusters)
		}
	}
	if !slices.ContainsFunc(now.Approvals, func(a api.FleetApproval) bool { return a.Epoch >= now.Began && a.Decision == api.DecisionApprove }) {
		h.breach("EachPassedWaveHasProof", "wave %d began without an approval", now.Wave)
	}
}

// completed reports whether a cluster has completed a version under its last permit. The hub may know this by an answer that
// it has still to write into the FleetTarget, and the first cluster is at hand.
func (h *hubLaws) completed(cluster string, t *api.FleetTarget, version string) bool {
	if cluster == "eu1" {
		return h.live.adopted(version) && h.live.rollout().Status.Fleet.Permit.Number() == t.Spec.Permit.Number()
	}
	return t.Status.CompletedAt != nil && t.Status.Report != nil && t.Status.Report.Stable.Version == version
}

// permitted checks a new permit of a cluster.
func (h *hubLaws) permitted(cluster string, last *api.FleetPermit, permit api.FleetPermit) {
	if permit.Number().Before(last.Number()) {
		h.breach("EpochAndSeqNeverFall", "the permit of %s went from %+v back to %+v", cluster, last.Number(), permit.Number())
	}
	if permit.Number() == last.Number() {
		return
	}
	h.permits[cluster] = append(h.permits[cluster], permit)
	grant, is := h.grants[permit.Number()]
	if !is || !slices.ContainsFunc(grant.Clusters, func(member string) bool { return clusterOf(member) == cluster }) || grant.Verb != permit.Verb {
		h.breach("GrantsKeepWithinLimits", "%s got the permit %+v (%s) without a grant", cluster, permit.Number(), permit.Verb)
	}
}

// memberLaws is the state of a member after some changes.
type memberLaws struct {
	breaks
	name string
	// permits are all that the hub has given the cluster.
	permits []api.FleetPermit
	live    objects
	// releases are the releases of the cluster, by the permit that each has used up.
	releases map[api.PermitNumber]int64
}

func (m *memberLaws) take(c change) {
	old, before := m.live[c.key()], m.live.rollout().Status
	if c.kind == watch.Deleted {
		delete(m.live, c.key())
		return
	}
	m.live[c.key()] = c.object
	switch {
	case c.key() == "rollouts/"+app:
		m.committed(before, m.live.rollout().Status)
	case c.resource == "pods" && old == nil:
		m.created(imageOf(c.object))
	}
}

// committed checks a new status of the Rollout.
func (m *memberLaws) committed(old, now api.RolloutStatus) {
	f := now.Fleet
	if f == nil || now.Sluice == nil {
		return
	}
	if old.Fleet != nil && f.Permit.Number().Before(old.Fleet.Permit.Number()) {
		m.breach("EpochAndSeqNeverFall", "%s went from permit %+v back to %+v", m.name, old.Fleet.Permit.Number(), f.Permit.Number())
	}
	if used := f.Used; used != nil && used.Release > 0 {
		if first, is := m.releases[used.Number()]; is && first != used.Release {
			m.breach("PermitBeginsOneRelease", "the releases %d and %d of %s have used the permit %+v", first, used.Release, m.name, used.Number())
		}
		m.releases[used.Number()] = used.Release
	}
	if !rollout.State(now.Sluice.State).InStep() || rollout.State(old.Sluice.GetState()).InStep() && old.Sluice.Epoch == now.Sluice.Epoch && now.Sluice.Step <= old.Sluice.Step {
		return
	}
	m.entered(now)
}

// entered checks that a release may enter its step.
func (m *memberLaws) entered(now api.RolloutStatus) {
	f, s := now.Fleet, now.Sluice
	for _, b := range f.Blocked {
		if !b.Unblocked && f.Releasing.Named(b.Version) {
			m.breach("WithdrawnVersionStaysOut", "%s enters step %d with %s", m.name, s.Step, b.Version)
		}
	}
	p := f.Permit
	if p == nil || p.Verb != api.FleetVerbRelease || !f.Releasing.Named(p.Version) || revisionOf(f) != s.CanaryRevision || p.HoldAt > 0 && s.Step > p.HoldAt {
		m.breach("NothingBeyondThePermit", "%s enters step %d of %s, and its permit is %+v", m.name, s.Step, f.Releasing.Version, p)
		return
	}
	if !slices.ContainsFunc(m.permits, func(given api.FleetPermit) bool {
		return given.Number() == p.Number() && given.Verb == p.Verb && given.Version == p.Version && given.Revision == p.Revision && maps.Equal(given.Images, p.Images) && given.HoldAt == p.HoldAt
	}) {
		m.breach("NothingBeyondThePermit", "%s enters step %d by the permit %+v, which the hub has not given", m.name, s.Step, p)
	}
	if f.Used.Number() != p.Number() || f.Used.Release != s.Epoch {
		m.breach("PermitBeginsOneRelease", "%s enters step %d, and %+v is all that it has used of the permit %+v", m.name, s.Step, f.Used, p.Number())
	}
}

// revisionOf returns the pod template that the permit is for, "" for none. With images, it is the one that has got them by this permit.
func revisionOf(f *api.RolloutFleetStatus) string {
	switch d := f.Delivered; {
	case len(f.Permit.Images) == 0:
		return f.Permit.Revision
	case d != nil && d.Number() == f.Permit.Number():
		return d.Revision
	}
	return ""
}

// created checks a new pod with an image.
func (m *memberLaws) created(image string) {
	r := m.live.rollout()
	f, s := r.Status.Fleet, r.Status.Sluice
	if image == firstImage || f == nil || s == nil || slices.ContainsFunc(f.Served, func(v api.FleetVersion) bool { return imageOfVersion(v.Version) == image }) {
		return
	}
	most := 0
	switch state := rollout.State(s.State); {
	case imageOfVersion(f.Releasing.Version) != image:
	case state.InStep():
		most = int(s.Step) // step n has n pods
	case s.FinaliseReason == api.FinaliseSuccess:
		most = size
	}
	n := 0
	for key, u := range m.live {
		if strings.HasPrefix(key, "pods/") && imageOf(u) == image && u.GetDeletionTimestamp() == nil {
			n++
		}
	}
	if n > most {
		m.breach("NothingBeyondThePermit", "%s has %d pods of %s in %s of step %d of %s", m.name, n, image, s.State, s.Step, f.Releasing.Version)
	}
}

// imageOfVersion returns the image of a version.
func imageOfVersion(version string) string { return strings.Replace(version, "v", "app:", 1) }
