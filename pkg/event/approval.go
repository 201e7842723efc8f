package event

import (
	"fmt"
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
// RolloutID, Image and Revision is given, and each given one must match the release. For a FleetRollout, it is a decision about a wave, and UID, Epoch and
// Wave are given.
type Approval struct {
	// Decision is approve or reject.
	Decision api.Decision `json:"decision"`
	// UID is the metadata.uid of the FleetRollout, Epoch its status.epoch, and Wave the name of the wave in its plan.
	UID   string `json:"uid,omitempty"`
	Epoch int64  `json:"epoch,omitempty"`
	Wave  string `json:"wave,omitempty"`
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
	about, fields, err := openRequest(e, TypeApproval)
	if err != nil {
		return Approval{}, about, err
	}
	var a Approval
	var decision string
	texts := []textField{
		{"decision", &decision, maxID}, {"rolloutID", &a.RolloutID, maxRolloutID}, {"image", &a.Image, maxImage},
		{"revision", &a.Revision, maxRolloutID}, {"comment", &a.Comment, maxComment},
	}
	if about.Fleet {
		texts = []textField{{"decision", &decision, maxID}, {"uid", &a.UID, maxID}, {"wave", &a.Wave, maxRolloutID}, {"comment", &a.Comment, maxComment}}
		if a.Epoch, err = fields.readEpoch(); err != nil {
			return Approval{}, about, err
		}
	} else if a.Step, err = fields.readStep(); err != nil {
		return Approval{}, about, err
	}
	if err := fields.readTexts(texts); err != nil {
		return Approval{}, about, err
	}
	a.Decision = api.Decision(decision)
	switch {
	case a.Decision != api.DecisionApprove && a.Decision != api.DecisionReject:
		return Approval{}, about, fmt.Errorf("data.decision is %q, want approve or reject", decision)
	case about.Fleet && (a.UID == "" || a.Epoch == 0 || a.Wave == ""):
		return Approval{}, about, fmt.Errorf("data must name the release and the wave: give uid, epoch and wave from the answer to the release")
	case !about.Fleet && a.RolloutID == "" && a.Image == "" && a.Revision == "":
		return Approval{}, about, fmt.Errorf("data names no release: give at least one of rolloutID, image and revision")
	}
	return a, about, nil
}

// openRequest checks the attributes of an event that an outside sender sends to Sluice, and returns the members of its data.
func openRequest(e Event, kind string) (Rollout, fields, error) {
	about, err := checkEnvelope(e, kind)
	if err != nil {
		return about, nil, err
	}
	fields, err := parseObject(e.Data())
	if err != nil {
		return about, nil, fmt.Errorf("data: %w", err)
	}
	return about, fields, nil
}

// checkEnvelope checks the attributes of the event, not its data.
func checkEnvelope(e Event, kind string) (Rollout, error) {
	if err := e.Validate(); err != nil {
		return Rollout{}, fmt.Errorf("it is no valid CloudEvent: %w", err)
	}
	if e.Type() != kind {
		return Rollout{}, fmt.Errorf("type is %q, want %s", e.Type(), kind)
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
	if len(p) != 4 || p[0] != "namespaces" || p[2] != resourceRollouts && p[2] != resourceFleets || p[1] == "" || p[3] == "" {
		return Rollout{}, fmt.Errorf("subject is %q, want namespaces/<namespace>/rollouts/<name>, or fleetrollouts for a release over many clusters", subject)
	}
	return Rollout{Namespace: p[1], Name: p[3], Fleet: p[2] == resourceFleets}, nil
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
