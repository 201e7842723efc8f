package event

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// ExtensionCausation is the event attribute with the id of the event that this event answers.
const ExtensionCausation = "causationid"

// Decided is the data of an event of [TypeDecided]: the answer to an approval, or to the event that names the version of a fleet's release. The same
// (Principal, ApprovalSource, ApprovalID) always gets the same answer.
type Decided struct {
	Accepted bool `json:"accepted"`
	// Refusal is empty if the approval was accepted.
	Refusal Refusal `json:"refusal,omitempty"`
	// Message is a sentence with the next thing to do.
	Message string `json:"message"`
	// Decision is the requested decision, empty if Sluice could not read it. [DecisionRelease] answers an event of [TypeFleetRelease].
	Decision api.Decision `json:"decision,omitempty"`
	// Step is the step that was decided about, or the step of the release; 0 without a step.
	Step int32 `json:"step,omitempty"`
	// Revision and RolloutID identify the release of the decision.
	Revision  string `json:"revision,omitempty"`
	RolloutID string `json:"rolloutID,omitempty"`
	// UID, Epoch, Wave and Version identify the release of a FleetRollout, and the wave that it was in.
	UID     string `json:"uid,omitempty"`
	Epoch   int64  `json:"epoch,omitempty"`
	Wave    string `json:"wave,omitempty"`
	Version string `json:"version,omitempty"`
	// Principal is the sender's name as NATS or the API server knows it.
	Principal      string `json:"principal"`
	ApprovalSource string `json:"approvalSource"`
	ApprovalID     string `json:"approvalID"`
	Comment        string `json:"comment,omitempty"`
}

// DecidedID returns the id of the event that answers an approval, so the sender knows the id in advance. The id includes the principal: a sender
// cannot get the answer to a decision that another principal sent under the same id.
func DecidedID(of Rollout, principal, source, id string) string {
	hash := sha256.New()
	parts := []string{of.Cluster, of.Namespace, of.Name, principal, source, id}
	if of.Fleet {
		parts = append(parts, resourceFleets)
	}
	for _, part := range parts {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return "approval/" + hex.EncodeToString(hash.Sum(nil)[:16])
}

// NewDecided returns the event that answers an approval about a Rollout. The UID of the Rollout may be empty. The same answer at the same time is the
// same event.
func NewDecided(of Rollout, d Decided, at time.Time) (Event, error) {
	e := of.newEvent(TypeDecided, DecidedID(of, d.Principal, d.ApprovalSource, d.ApprovalID), at)
	if d.ApprovalID != "" {
		e.SetExtension(ExtensionCausation, d.ApprovalID)
	}
	if d.Accepted != (d.Refusal == "") {
		return Event{}, fmt.Errorf("build the answer to approval %s: it is either accepted or has a refusal", d.ApprovalID)
	}
	if err := e.SetData("application/json", d); err != nil {
		return Event{}, fmt.Errorf("encode the answer to approval %s: %w", d.ApprovalID, err)
	}
	if err := e.Validate(); err != nil {
		return Event{}, fmt.Errorf("build the answer to approval %s: %w", d.ApprovalID, err)
	}
	return e, nil
}

// ParseDecided reads what [NewDecided] wrote.
func ParseDecided(e Event) (Decided, error) {
	var d Decided
	if e.Type() != TypeDecided {
		return d, fmt.Errorf("read event %s: its type is %q, want %s", e.ID(), e.Type(), TypeDecided)
	}
	if err := json.Unmarshal(e.Data(), &d); err != nil {
		return d, fmt.Errorf("read event %s: %w", e.ID(), err)
	}
	return d, nil
}
