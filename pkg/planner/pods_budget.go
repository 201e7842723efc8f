package planner

import "sluice.dev/sluice/pkg/rollout"

// rollingUpdateBudget is the budget of a workload on its way to so many new pods; ready of them count as ready already. At no time are more pods
// missing or surplus than its owner allows, and each pod that becomes ready lets the next one go. Deleted old pods do not come back when new ones
// fail: otherwise the workload would get as many new ones on top. Above 100 replicas, up to one in a hundred of the new pods may come on top of the
// old ones, because a percentage cannot express their number.
func rollingUpdateBudget(w *rollout.Workload, want, ready, taken int32) rollout.Budget {
	gone := min(want, max(w.MaxUnavailable+ready, taken))
	b := rollout.Budget{Unavailable: percentFor(gone, w.DesiredReplicas)}
	said := percentOf(b.Unavailable, w.DesiredReplicas)
	b.Surge = min(w.MaxSurge+gone-said, want-said)
	return b
}

// pausedBudget is the budget that leaves a workload with so many new pods nothing to do.
func pausedBudget(w *rollout.Workload, have int32) rollout.Budget {
	return rollingUpdateBudget(w, have, have, 0)
}

// percentFor is the percentage of the replicas that comes nearest to so many pods without being more.
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
