package planner

import "sluice.dev/sluice/pkg/rollout"

// rollingUpdateBudget returns the budget of a workload on its way to want new pods; ready of them are ready, and taken old pods are gone. No more
// pods are missing or extra than the owner allows, and each pod that becomes ready allows the next one to go. Old pods that are gone do not return
// when new pods fail. A budget without them would cause as many extra new pods. With more than 100 replicas, up to one in a hundred of the new pods
// may be surge, because a percentage cannot give the exact number.
func rollingUpdateBudget(w *rollout.Workload, want, ready, taken int32) rollout.Budget {
	gone := min(want, max(w.MaxUnavailable+ready, taken))
	b := rollout.Budget{Unavailable: percentFor(gone, w.DesiredReplicas)}
	said := percentOf(b.Unavailable, w.DesiredReplicas)
	b.Surge = min(w.MaxSurge+gone-said, want-said)
	return b
}

// pausedBudget returns the budget that leaves a workload with so many new pods nothing to do.
func pausedBudget(w *rollout.Workload, have int32) rollout.Budget {
	return rollingUpdateBudget(w, have, have, 0)
}

// percentFor returns the percentage of the replicas that is closest to so many pods without more pods.
func percentFor(pods, replicas int32) int32 {
	if replicas <= 0 {
		return 0
	}
	percent := int32((100*int64(pods) + int64(replicas) - 1) / int64(replicas))
	if percentOf(percent, replicas) > pods {
		percent--
	}
	return min(percent, 100)
}

// percentOf rounds down, as the Deployment controller does for maxUnavailable.
func percentOf(percent, replicas int32) int32 {
	return int32(int64(percent) * int64(replicas) / 100)
}
