package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MaxApprovals is how many decisions the status keeps, the latest ones.
const MaxApprovals = 64

// Approval is a decision that was accepted. It counts for one pause of one release only.
type Approval struct {
	// The step it was for, counted from 1.
	Step int32 `json:"step"`
	// The release it was for.
	Epoch int64 `json:"epoch"`
	// The pause it was for.
	PauseSeq int64 `json:"pauseSeq"`
	// approve or reject.
	Decision Decision `json:"decision"`
	// It overruled what the metrics said.
	// +optional
	Forced bool `json:"forced,omitempty"`
	// The user or principal who decided.
	// +optional
	Actor string `json:"actor,omitempty"`
	// When it was accepted.
	Time metav1.MicroTime `json:"time"`
	// The id of the event that brought it.
	// +optional
	EventID string `json:"eventID,omitempty"`
	// The source of the event that brought it.
	// +optional
	Source string `json:"source,omitempty"`
	// The revision it was for.
	// +optional
	Revision string `json:"revision,omitempty"`
	// The id that the owner of the workload gave the release it was for.
	// +optional
	RolloutID string `json:"rolloutID,omitempty"`
	// The comment of the actor.
	// +optional
	Comment string `json:"comment,omitempty"`
	// The W3C trace context of the event that brought it; what the decision leads to continues that trace.
	// +optional
	// +kubebuilder:validation:MaxLength=55
	Traceparent string `json:"traceparent,omitempty"`
}

// Decision is what an approval says.
//
// +kubebuilder:validation:Enum=approve;reject
type Decision string

// Values of Decision.
const (
	DecisionApprove Decision = "approve"
	DecisionReject  Decision = "reject"
)
