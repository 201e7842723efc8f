package event

import (
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice.dev/sluice/pkg/api"
)

// Types of the events that carry decisions and their answers.
const (
	TypeApproval = "dev.sluice.approval.v1"
	TypeDecided  = "dev.sluice.approval.decided.v1"
)

// Refusal is a one-word reason why Sluice did not accept a decision.
type Refusal = api.Refusal

// Approval is the data of an event of [TypeApproval]: a decision of an outside sender about the step in which a release pauses. At least one of
// RolloutID, Image and Revision is given, and each given one must match the release.
type Approval struct {
	// Decision is approve or reject.
	Decision api.Decision `json:"decision"`
	// Step is counted from 1. Without it, the decision is about the step that is paused when the event arrives.
	Step *int32 `json:"step,omitempty"`
	// RolloutID is the id that the owner of the workload gave the release.
	RolloutID string `json:"rolloutID,omitempty"`
	// Image is the image of a container of the new version, exactly as in its pod template; or only its digest, sha256:...
	Image string `json:"image,omitempty"`
	// Revision is status.canaryStatus.canaryRevision or podTemplateHash.
	Revision string `json:"revision,omitempty"`
	// Comment is for people.
	Comment string `json:"comment,omitempty"`
}

// Maximum lengths of the values of an approval, in bytes. The executor keeps accepted approvals in the status.
const (
	maxID        = 256
	maxSource    = 512
	maxRolloutID = 253
	maxImage     = 1024
	maxComment   = 1024
)

// ParseApproval reads an approval and the Rollout in its subject, without cluster and UID. It is strict about fields that it knows. It ignores other
// fields, so later additions break no sender. The error is a sentence for the sender.
func ParseApproval(e Event) (Approval, Rollout, error) {
	about, err := checkEnvelope(e)
	if err != nil {
		return Approval{}, about, err
	}
	fields, err := parseObject(e.Data())
	if err != nil {
		return Approval{}, about, fmt.Errorf("data: %w", err)
	}
	var a Approval
	var decision string
	for _, f := range []struct {
		name  string
		value *string
		most  int
	}{
		{"decision", &decision, maxID}, {"rolloutID", &a.RolloutID, maxRolloutID}, {"image", &a.Image, maxImage},
		{"revision", &a.Revision, maxRolloutID}, {"comment", &a.Comment, maxComment},
	} {
		if err := fields.readText(f.name, f.value, f.most); err != nil {
			return Approval{}, about, err
		}
	}
	if a.Step, err = fields.readStep(); err != nil {
		return Approval{}, about, err
	}
	a.Decision = api.Decision(decision)
	switch {
	case a.Decision != api.DecisionApprove && a.Decision != api.DecisionReject:
		return Approval{}, about, fmt.Errorf("data.decision is %q, want approve or reject", decision)
	case a.RolloutID == "" && a.Image == "" && a.Revision == "":
		return Approval{}, about, fmt.Errorf("data names no release: give at least one of rolloutID, image and revision")
	}
	return a, about, nil
}

// checkEnvelope checks the attributes of the event, not its data.
func checkEnvelope(e Event) (Rollout, error) {
	if err := e.Validate(); err != nil {
		return Rollout{}, fmt.Errorf("it is no valid CloudEvent: %w", err)
	}
	if e.Type() != TypeApproval {
		return Rollout{}, fmt.Errorf("type is %q, want %s", e.Type(), TypeApproval)
	}
	about, err := ParseSubject(e.Subject())
	if err != nil {
		return Rollout{}, err
	}
	for _, a := range []struct {
		name, value string
		most        int
	}{{"id", e.ID(), maxID}, {"source", e.Source(), maxSource}} {
		if err := checkText(a.name, a.value, a.most, ""); err != nil {
			return about, err
		}
	}
	media, _, _ := strings.Cut(strings.ToLower(e.DataContentType()), ";")
	if media = strings.TrimSpace(media); media != "" && media != "application/json" && !strings.HasSuffix(media, "+json") {
		return about, fmt.Errorf("datacontenttype is %q, want application/json", e.DataContentType())
	}
	return about, nil
}

// ParseSubject is the inverse of [Rollout.Subject]; the cluster and the UID are left empty.
func ParseSubject(subject string) (Rollout, error) {
	p := strings.Split(subject, "/")
	if len(p) != 4 || p[0] != "namespaces" || p[2] != "rollouts" || p[1] == "" || p[3] == "" {
		return Rollout{}, fmt.Errorf("subject is %q, want namespaces/<namespace>/rollouts/<name>", subject)
	}
	return Rollout{Namespace: p[1], Name: p[3]}, nil
}

// checkText checks that a text is not empty, is not too long, and contains no control characters except those in allowed.
func checkText(name, value string, most int, allowed string) error {
	control := func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune(allowed, r) }
	switch {
	case value == "":
		return fmt.Errorf("%s is empty: leave it out or give it a value", name)
	case len(value) > most:
		return fmt.Errorf("%s has %d bytes, at most %d are taken", name, len(value), most)
	case !utf8.ValidString(value) || strings.ContainsFunc(value, control):
		return fmt.Errorf("%s has control characters or is not UTF-8", name)
	}
	return nil
}

// readStep reads the number of a step. JSON has one kind of number, so 2.0 is 2.
func (f fields) readStep() (*int32, error) {
	var n float64
	given, err := f.readField("step", &n)
	if !given || err != nil {
		return nil, err
	}
	if n != math.Trunc(n) || n < 1 || n > math.MaxInt32 {
		return nil, fmt.Errorf("data.step is %v, want the number of a step, counted from 1", n)
	}
	step := int32(n)
	return &step, nil
}
