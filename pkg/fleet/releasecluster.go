package fleet

import (
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"sluice.dev/sluice/pkg/api"
)

// ReleaseCluster is a cluster in the release of a FleetRollout, as its objects show it.
type ReleaseCluster struct {
	Name string `json:"cluster"`
	// Wave counts from 1; it is 0 if no wave has drawn the cluster.
	Wave     int32                `json:"wave,omitempty"`
	WaveName string               `json:"waveName,omitempty"`
	Phase    api.FleetTargetPhase `json:"phase"`
	Reason   string               `json:"reason,omitempty"`
	// Step counts from 1; it is 0 for a cluster that is in no step.
	Step int32 `json:"step,omitempty"`
	// Runs is the last version that all pods of the cluster have run, "" if the hub does not know it.
	Runs    string            `json:"runs,omitempty"`
	Since   *metav1.MicroTime `json:"since,omitempty"`
	Message string            `json:"message,omitempty"`
	// Permitted: the cluster has had a permit.
	Permitted bool `json:"-"`
}

// ReadClusters returns the clusters of a release: first the clusters of its waves in their order, and then the others by name. members may be nil, if the reader does not know
// them.
func ReadClusters(r *api.FleetRollout, targets []api.FleetTarget, members []api.FleetMember, now time.Time) []ReleaseCluster {
	targetOf, memberOf := map[string]*api.FleetTarget{}, map[string]*api.FleetMember{}
	for i := range members {
		memberOf[members[i].Name] = &members[i]
	}
	for i := range targets {
		t := &targets[i]
		if memberOf[t.Spec.Cluster] != nil || members == nil || t.Spec.Permit.Epoch >= r.Status.Began { // it left before this release otherwise
			targetOf[t.Spec.Cluster] = t
		}
	}
	undecided := phaseOfRest(r, targets)
	var list []ReleaseCluster
	seen := map[string]bool{}
	add := func(name string, wave int32, waveName string) {
		if seen[name] {
			return
		}
		seen[name] = true
		c := ReleaseCluster{Name: name, Wave: wave, WaveName: waveName}
		if t := targetOf[name]; t != nil {
			c.readTarget(t)
		} else {
			c.guess(r, memberOf[name], members != nil, undecided, now)
		}
		list = append(list, c)
	}
	for i, w := range r.Status.Waves {
		for _, name := range w.Clusters {
			add(name, int32(i+1), w.Name)
		}
	}
	others := slices.Collect(maps.Keys(targetOf))
	if r.Status.Plan != nil {
		if selector, err := metav1.LabelSelectorAsSelector(&r.Status.Plan.Clusters); err == nil {
			for name, m := range memberOf {
				if selector.Matches(labels.Set(m.Labels)) {
					others = append(others, name)
				}
			}
		}
	}
	slices.Sort(others)
	for _, name := range others {
		add(name, 0, "")
	}
	return list
}

// readTarget takes over what the hub has written about a cluster that has had a permit.
func (c *ReleaseCluster) readTarget(t *api.FleetTarget) {
	s := t.Status
	c.Phase, c.Reason, c.Since, c.Permitted = s.Phase, s.Reason, s.Since, true
	if r := s.Report; r != nil {
		c.Step, c.Message = r.Step, r.Message
		if keys := r.Stable.Keys(); len(keys) > 0 {
			c.Runs = KeyText(keys[0])
		}
	}
	switch permit := t.Spec.Permit; {
	case c.Message != "":
	case permit.NoTraffic:
		c.Message = "it has no users, and skips its analyses"
	case len(permit.SkipAnalyses) > 0:
		c.Message = "it skips the analyses of " + strings.Join(permit.SkipAnalyses, ", ")
	}
}

// guess finds the phase of a cluster that has had no permit. The hub keeps no object for it: it counts its phase, and lists it if it needs a person.
func (c *ReleaseCluster) guess(r *api.FleetRollout, m *api.FleetMember, membersKnown bool, undecided api.FleetTargetPhase, now time.Time) {
	c.Phase = undecided
	for _, a := range r.Status.Attention {
		if a.Cluster == c.Name {
			c.Phase, c.Reason, c.Since, c.Message = a.Phase, a.Reason, a.Since, a.Message
			return
		}
	}
	switch {
	case slices.Contains(r.Status.Skipped, c.Name):
		c.Phase = api.FleetTargetSkipped
	case m == nil && membersKnown:
		c.Phase = api.FleetTargetLeft
	case m == nil:
	case m.Status.Phase == api.FleetMemberUnreachable || m.Status.Phase == api.FleetMemberNameTaken:
		c.Phase, c.Reason, c.Message = api.FleetTargetDeferred, string(m.Status.Phase), m.Status.Message
	case m.Spec.Cordoned.Holds(now):
		c.Phase, c.Reason, c.Message = api.FleetTargetDeferred, reasonCordoned, m.Spec.Cordoned.Reason
	}
}

// phaseOfRest returns the phase of the clusters without a FleetTarget if the counts show that all of them have the same one, and else Pending.
func phaseOfRest(r *api.FleetRollout, targets []api.FleetTarget) api.FleetTargetPhase {
	rest := maps.Clone(r.Status.Counts)
	for _, t := range targets {
		if rest[t.Status.Phase]--; rest[t.Status.Phase] < 0 {
			return api.FleetTargetPending // the counts are older than the targets
		}
	}
	maps.DeleteFunc(rest, func(_ api.FleetTargetPhase, n int32) bool { return n == 0 })
	for phase := range rest {
		if len(rest) == 1 {
			return phase
		}
	}
	return api.FleetTargetPending
}

// Ended reports whether the release has nothing more to do in a cluster.
func (c ReleaseCluster) Ended() bool {
	switch c.Phase {
	case api.FleetTargetCompleted, api.FleetTargetSkipped, api.FleetTargetLeft, api.FleetTargetAbsent, api.FleetTargetUngoverned, api.FleetTargetWithdrawn:
		return true
	}
	return false
}

// Lacks reports whether a cluster of a wave does not have the version, although its wave has begun.
func (c ReleaseCluster) Lacks() bool { return c.Wave > 0 && !c.Ended() }

// Lacking describes a cluster that lacks the version of a release that has succeeded, such as "deferred: eu3  Unreachable  MESSAGE".
func (c ReleaseCluster) Lacking() string {
	what := "deferred" // it follows when it comes back
	if c.Phase != api.FleetTargetDeferred && c.Phase != api.FleetTargetAwaitingDelivery && c.Phase != api.FleetTargetUnknown {
		what = strings.ToLower(string(c.Phase))
	}
	return strings.TrimRight(what+": "+c.Name+"  "+c.Reason+"  "+c.Message, " ")
}

// KeyText returns a key of status.blocked as the user types it.
func KeyText(key string) string { return strings.TrimPrefix(key, "version/") }
