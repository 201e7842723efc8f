package api

// Phase is the phase of a Rollout.
type Phase string

// Phases of a Rollout, as OpenKruise names them.
const (
	PhaseInitial     Phase = "Initial"
	PhaseHealthy     Phase = "Healthy"
	PhaseProgressing Phase = "Progressing"
	PhaseTerminating Phase = "Terminating"
	PhaseDisabling   Phase = "Disabling"
	PhaseDisabled    Phase = "Disabled"
)

// RoutingPhase is the phase of a TrafficRouting.
type RoutingPhase string

// Phases of a TrafficRouting.
const (
	RoutingInitial     RoutingPhase = "Initial"
	RoutingHealthy     RoutingPhase = "Healthy"
	RoutingProgressing RoutingPhase = "Progressing"
	RoutingFinalizing  RoutingPhase = "Finalizing"
	RoutingTerminating RoutingPhase = "Terminating"
)
