package event

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	"sluice.dev/sluice/pkg/api"
)

// ExtensionCausation is the event attribute with the id of the event that this event answers.
const ExtensionCausation = "causationid"

// Decided is the data of an event of [TypeDecided]: the answer to an approval. The same (Principal, ApprovalSource, ApprovalID) always gets the same
// answer.
type Decided struct {
	Accepted bool `json:"accepted"`
	// Refusal is empty if the approval was accepted.
	Refusal Refusal `json:"refusal,omitempty"`
	// Message is a sentence with the next thing to do.
	Message string `json:"message"`
	// Decision is the requested decision, empty if Sluice could not read it.
	Decision api.Decision `json:"decision,omitempty"`
	// Step is the step that was decided about, or the step of the release; 0 without a step.
	Step int32 `json:"step,omitempty"`
	// Revision and RolloutID identify the release of the decision.
	Revision  string `json:"revision,omitempty"`
	RolloutID string `json:"rolloutID,omitempty"`
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
	for _, part := range []string{of.Cluster, of.Namespace, of.Name, principal, source, id} {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return "approval/" + hex.EncodeToString(hash.Sum(nil)[:16])
}

// NewDecided returns the event that answers an approval about a Rollout. The UID of the Rollout may be empty. The same answer at the same time is the
// same event.
func NewDecided(of Rollout, d Decided, at time.Time) (Event, error) {
	e := cloudevents.New()
	e.SetType(TypeDecided)
	e.SetSource(of.Source())
	e.SetSubject(of.Subject())
	e.SetID(DecidedID(of, d.Principal, d.ApprovalSource, d.ApprovalID))
	e.SetTime(at)
	e.SetExtension("partitionkey", of.Cluster+"/"+of.Namespace+"/"+of.Name)
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
