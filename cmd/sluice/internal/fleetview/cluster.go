package fleetview

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
)

// ReadClusters returns the clusters of a release: first the clusters of its waves in their order, and then the others by name.
func ReadClusters(v View) []fleet.ReleaseCluster {
	return fleet.ReadClusters(v.Rollout, v.Targets, v.Members, v.Now)
}

// urgency orders clusters: those that need a person, those under way, those that wait, and those that have ended.
func urgency(c fleet.ReleaseCluster) int {
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
func SelectMembers(clusters []fleet.ReleaseCluster, members []api.FleetMember) []fleet.ReleaseCluster {
	names := map[string]bool{}
	for _, m := range members {
		names[m.Name] = true
	}
	return slices.DeleteFunc(clusters, func(c fleet.ReleaseCluster) bool { return !names[c.Name] })
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

func countPhases(clusters []fleet.ReleaseCluster) map[api.FleetTargetPhase]int32 {
	counts := map[api.FleetTargetPhase]int32{}
	for _, c := range clusters {
		counts[c.Phase]++
	}
	return counts
}
