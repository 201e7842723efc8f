package api

// Finalizers of OpenKruise Rollouts.
const (
	// FinalizerRollout stands on every Rollout that may have left something in the cluster.
	FinalizerRollout = "rollouts.kruise.io/rollout"
	// FinalizerTrafficRouting stands on a TrafficRouting.
	FinalizerTrafficRouting = "rollouts.kruise.io/trafficrouting"
	// FinalizerProgressingPrefix and the name of a Rollout stands on the TrafficRouting
	// that the Rollout's release uses.
	FinalizerProgressingPrefix = "progressing.rollouts.kruise.io/"
)

// FinalizerFleet stands on a FleetRollout whose clusters may have permits.
const FinalizerFleet = "sluice.dev/fleet"
