package api

// StepState is the state of the current step.
type StepState string

// States of a step, in the order in which a step walks through them.
const (
	StepBeforeUpgrade   StepState = "BeforeStepUpgrade"
	StepUpgrade         StepState = "StepUpgrade"
	StepTrafficRouting  StepState = "StepTrafficRouting"
	StepMetricsAnalysis StepState = "StepMetricsAnalysis"
	StepPaused          StepState = "StepPaused"
	StepReady           StepState = "StepReady"
	StepCompleted       StepState = "Completed"
)

// NoNextStep is the value of nextStepIndex on the last step.
const NoNextStep int32 = -1
