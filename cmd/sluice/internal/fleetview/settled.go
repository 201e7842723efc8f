package fleetview

import (
	"maps"

	"sluice.dev/sluice/pkg/api"
)

// Settled reports whether the FleetTargets agree with the counts of the FleetRollout. The hub writes the status first and the FleetTargets afterwards, and it
// writes counts alone at most once a second. So a reader may see either of them late.
func (v View) Settled() bool {
	if len(v.Rollout.Status.Counts) == 0 || v.Targets == nil {
		return true
	}
	rest := maps.Clone(v.Rollout.Status.Counts)
	for _, t := range v.Targets {
		if rest[t.Status.Phase]--; rest[t.Status.Phase] < 0 {
			return false
		}
	}
	for phase, n := range rest {
		if n > 0 && needsTarget(phase) {
			return false
		}
	}
	return true
}

// needsTarget reports whether each cluster of this phase has a FleetTarget.
func needsTarget(phase api.FleetTargetPhase) bool {
	switch phase {
	case api.FleetTargetPermitted, api.FleetTargetAtHold, api.FleetTargetSoaking, api.FleetTargetCompleted, api.FleetTargetFailed, api.FleetTargetWithdrawn,
		api.FleetTargetDiverged, api.FleetTargetUnknown:
		return true
	}
	return false
}
