package api

// Command tells Sluice to do something with the release under way. It counts for that release
// only, and is taken away once it was followed or refused.
type Command struct {
	// Abort, Retry, Approve, Promote or Override.
	Action CommandAction `json:"action"`
	// The release it is for, as in status.sluice.epoch.
	Epoch int64 `json:"epoch"`
	// The stay at a step that Approve is for, as in status.sluice.pauseSeq.
	// +optional
	PauseSeq int64 `json:"pauseSeq,omitempty"`
	// The user who gives it. The admission policy rejects the name of another user.
	// +kubebuilder:validation:MaxLength=1024
	Actor string `json:"actor"`
	// Why it is given.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Comment string `json:"comment,omitempty"`
}

// CommandAction is what a command asks for.
//
// +kubebuilder:validation:Enum=Abort;Retry;Approve;Promote;Override
type CommandAction string

// Values of CommandAction.
const (
	// CommandAbort gives all traffic back to the stable version and keeps the change held.
	CommandAbort CommandAction = "Abort"
	// CommandRetry starts a release that was aborted again, from its first step.
	CommandRetry CommandAction = "Retry"
	// CommandApprove lets a step end regardless of its metrics.
	CommandApprove CommandAction = "Approve"
	// CommandPromote skips the remaining steps, with their pauses and analyses: the release ends as a success.
	CommandPromote CommandAction = "Promote"
	// CommandOverride lets a release go on without the permits of its fleet.
	CommandOverride CommandAction = "Override"
)
