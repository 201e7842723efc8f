package fleetview

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
)

// Cluster is a cluster in the release of a FleetRollout.
type Cluster struct {
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

	target *api.FleetTarget
}

// ReadClusters returns the clusters of a release: first the clusters of its waves in their order, and then the others by name.
func ReadClusters(v View) []Cluster {
	targets, members := map[string]*api.FleetTarget{}, map[string]*api.FleetMember{}
	for i := range v.Targets {
		targets[v.Targets[i].Spec.Cluster] = &v.Targets[i]
	}
	for i := range v.Members {
		members[v.Members[i].Name] = &v.Members[i]
	}
	status, undecided := v.Rollout.Status, phaseOfRest(v)
	var list []Cluster
	seen := map[string]bool{}
	add := func(name string, wave int32, waveName string) {
		if seen[name] {
			return
		}
		seen[name] = true
		c := Cluster{Name: name, Wave: wave, WaveName: waveName, target: targets[name]}
		if c.target != nil {
			c.readTarget()
		} else {
			c.guess(v, members[name], undecided)
		}
		list = append(list, c)
	}
	for i, w := range status.Waves {
		for _, name := range w.Clusters {
			add(name, int32(i+1), w.Name)
		}
	}
	others := slices.Collect(maps.Keys(targets))
	if status.Plan != nil {
		if selector, err := metav1.LabelSelectorAsSelector(&status.Plan.Clusters); err == nil {
			for name, m := range members {
				if selector.Matches(labelSet(m.Labels)) {
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
func (c *Cluster) readTarget() {
	s := c.target.Status
	c.Phase, c.Reason, c.Since = s.Phase, s.Reason, s.Since
	if r := s.Report; r != nil {
		c.Step, c.Message = r.Step, r.Message
		if keys := r.Stable.Keys(); len(keys) > 0 {
			c.Runs = KeyText(keys[0])
		}
	}
	switch permit := c.target.Spec.Permit; {
	case c.Message != "":
	case permit.NoTraffic:
		c.Message = "it has no users, and skips its analyses"
	case len(permit.SkipAnalyses) > 0:
		c.Message = "it skips the analyses of " + strings.Join(permit.SkipAnalyses, ", ")
	}
}

// guess finds the phase of a cluster that has had no permit. The hub keeps no object for it: it counts its phase, and lists it if it needs a person.
func (c *Cluster) guess(v View, m *api.FleetMember, undecided api.FleetTargetPhase) {
	status := v.Rollout.Status
	c.Phase = undecided
	for _, a := range status.Attention {
		if a.Cluster == c.Name {
			c.Phase, c.Reason, c.Since, c.Message = phaseByReason(a.Reason, undecided), a.Reason, a.Since, a.Message
			return
		}
	}
	switch {
	case slices.Contains(status.Skipped, c.Name):
		c.Phase = api.FleetTargetSkipped
	case m == nil && v.Members != nil:
		c.Phase = api.FleetTargetLeft
	case m == nil:
	case m.Status.Phase == api.FleetMemberUnreachable || m.Status.Phase == api.FleetMemberNameTaken:
		c.Phase, c.Reason, c.Message = api.FleetTargetDeferred, string(m.Status.Phase), m.Status.Message
	case cordonText(m.Spec.Cordoned, v.Now) != "":
		c.Phase, c.Reason, c.Message = api.FleetTargetDeferred, "Cordoned", m.Spec.Cordoned.Reason
	}
}

// phaseByReason returns the phase of a cluster without a permit that needs a person.
func phaseByReason(reason string, otherwise api.FleetTargetPhase) api.FleetTargetPhase {
	switch reason {
	case "Unreachable", "NameTaken", "NotDelivered", "NoEnforcement":
		return api.FleetTargetDeferred
	case "NoIdentity", "Blocked":
		return api.FleetTargetAwaitingDelivery
	case string(api.FleetTargetNoWayBack):
		return api.FleetTargetNoWayBack
	case api.FleetUnpermittedNotHeld, api.FleetUnpermittedRecreated:
		return api.FleetTargetUnpermitted
	case "Overridden":
		return api.FleetTargetProgressing
	}
	return otherwise
}

// phaseOfRest returns the phase of the clusters without a FleetTarget if the counts show that all of them have the same one, and else Pending.
func phaseOfRest(v View) api.FleetTargetPhase {
	rest := maps.Clone(v.Rollout.Status.Counts)
	for _, t := range v.Targets {
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
func (c Cluster) Ended() bool {
	switch c.Phase {
	case api.FleetTargetCompleted, api.FleetTargetSkipped, api.FleetTargetLeft, api.FleetTargetAbsent, api.FleetTargetUngoverned, api.FleetTargetWithdrawn:
		return true
	}
	return false
}

// urgency orders clusters: those that need a person, those under way, those that wait, and those that have ended.
func (c Cluster) urgency() int {
	switch c.Phase {
	case api.FleetTargetFailed, api.FleetTargetDiverged, api.FleetTargetNoWayBack, api.FleetTargetUnpermitted, api.FleetTargetUnknown:
		return 0
	case api.FleetTargetPermitted, api.FleetTargetProgressing, api.FleetTargetAtHold, api.FleetTargetSoaking:
		return 1
	case api.FleetTargetDeferred:
		return 2
	case api.FleetTargetPending, api.FleetTargetAwaitingDelivery:
		return 3
	}
	return 4
}

// SelectMembers keeps the clusters whose FleetMembers have the labels.
func SelectMembers(clusters []Cluster, members []api.FleetMember) []Cluster {
	names := map[string]bool{}
	for _, m := range members {
		names[m.Name] = true
	}
	return slices.DeleteFunc(clusters, func(c Cluster) bool { return !names[c.Name] })
}

// countText returns how many clusters have each phase, such as "2 Completed, 1 Failed".
func countText(counts map[api.FleetTargetPhase]int32) string {
	phases := slices.SortedFunc(maps.Keys(counts), func(a, b api.FleetTargetPhase) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(string(a), string(b)))
	})
	var parts []string
	for _, phase := range phases {
		if counts[phase] > 0 {
			parts = append(parts, number(counts[phase])+" "+string(phase))
		}
	}
	return strings.Join(parts, ", ")
}

func countPhases(clusters []Cluster) map[api.FleetTargetPhase]int32 {
	counts := map[api.FleetTargetPhase]int32{}
	for _, c := range clusters {
		counts[c.Phase]++
	}
	return counts
}
