package rollout

import "sluice.dev/sluice/pkg/api"

// State is the state of the machine that carries out a release, as status.sluice.state holds it.
//
//	           Disabled <──────────────┐
//	              │                    │ spec.disabled
//	(new) ─────> Idle ── held change ──> Initializing
//	              ^                        │
//	              │            ┌───────────┴── BeforeStepUpgrade <──┐ next step, jump, changed plan
//	              │            │                     │              │
//	              │            │                StepUpgrade         │
//	              │            │                     │              │
//	              │            │             StepTrafficRouting     │
//	              │            │                     │              │
//	              │            │            StepMetricsAnalysis     │
//	              │            │                     │              │
//	              │            │                 StepPaused         │
//	              │            │                     │ approved, time│
//	              │            │                 StepReady ─────────┘
//	              │            │ rollback, new version,   │ last step
//	              │            │ disabled, deleted    Completed
//	              │            v                          │
//	              ├─────── Finalising <───────────────────┘
//	              │            │    ^
//	              │    deleted │    │ new version, rollback, retry
//	              │            v    │
//	              │     Terminated  Aborted <── metrics failed or a user aborted, in any step
type State string

// States of the machine. The names of step states are OpenKruise's.
const (
	StateIdle           State = "Idle"
	StateInitializing   State = "Initializing"
	StateBeforeUpgrade  State = State(api.StepBeforeUpgrade)
	StateUpgrade        State = State(api.StepUpgrade)
	StateTrafficRouting State = State(api.StepTrafficRouting)
	StateAnalysis       State = State(api.StepMetricsAnalysis)
	StatePaused         State = State(api.StepPaused)
	StateReady          State = State(api.StepReady)
	StateCompleted      State = State(api.StepCompleted)
	StateFinalising     State = "Finalising"
	// StateAborted: traffic is on the stable version, and the change is still held. A release that was given up since, as its workload was missing
	// for a moment, comes back to it.
	StateAborted    State = "Aborted"
	StateDisabled   State = "Disabled"
	StateTerminated State = "Terminated"
)

// InStep reports whether the machine is carrying out a step.
func (s State) InStep() bool {
	switch s {
	case StateBeforeUpgrade, StateUpgrade, StateTrafficRouting, StateAnalysis, StatePaused, StateReady, StateCompleted:
		return true
	}
	return false
}

// TakesApproval reports whether the step can be approved or rejected: it is paused. The admission policy lets users approve in this state only.
func (s State) TakesApproval() bool { return s == StatePaused }

// TakesForcedApproval reports whether a user can let the step go on against its metrics. The admission policy says the same of commands.
func (s State) TakesForcedApproval() bool { return s == StateAnalysis || s.TakesApproval() }

// Releasing reports whether a release is under way, so that something of it may have to be cleaned up.
func (s State) Releasing() bool {
	return s.InStep() || s == StateInitializing || s == StateFinalising || s == StateAborted
}

// IsRemark reports whether the state is a word of the outbox, and no state of the machine.
func (s State) IsRemark() bool { return s == StateStalled || s == StateTrafficRestored }

// Words of the outbox other than states. Such a word stands in place of one state of a transition, and the machine stays in the other one: a stall
// goes from the state to StateStalled when it begins, and back when it ends.
const (
	StateStalled         State = "Stalled"
	StateTrafficRestored State = "TrafficRestored"
)
