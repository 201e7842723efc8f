package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"sluice.dev/sluice/pkg/event"
)

// ApprovalSubject is where the principal's decisions about the Rollout go. NATS permissions say who may publish as whom.
func (k Key) ApprovalSubject(principal string) string {
	return approvalPrefix + k.rolloutTokens() + "." + PrincipalToken(principal)
}

// ParseApprovalSubject is the inverse of [Key.ApprovalSubject].
func ParseApprovalSubject(subject string) (key Key, principal string, err error) {
	rest, ours := strings.CutPrefix(subject, approvalPrefix)
	p := strings.Split(rest, ".")
	if !ours || len(p) != 4 {
		return Key{}, "", fmt.Errorf("parse subject %q: want sluice.approval.<cluster>.<namespace>.<name>.<principal>", subject)
	}
	if key, err = parseTokens(p[:3], TaskRelease); err != nil {
		return Key{}, "", fmt.Errorf("parse subject %q: %w", subject, err)
	}
	if principal, err = ParsePrincipal(p[3]); err != nil {
		return Key{}, "", fmt.Errorf("parse subject %q: %w", subject, err)
	}
	return key, principal, nil
}

// ApprovalMessage is the message by which the principal decides about the Rollout, for those who have a NATS connection of their
// own. It has no Nats-Msg-Id: whoever may publish decisions could use another one's id first and so silence it. Sent twice it is
// decided once, and answered twice.
func ApprovalMessage(key Key, principal string, e event.Event) (*nats.Msg, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	if err := validPrincipal(principal); err != nil {
		return nil, fmt.Errorf("principal %q: %w", principal, err)
	}
	_, about, err := event.ParseApproval(e)
	if err != nil {
		return nil, err
	}
	if about.Namespace != key.Namespace || about.Name != key.Name {
		return nil, fmt.Errorf("the event is about %s, and not about Rollout %s", about.Subject(), key)
	}
	header, body, err := event.Encode(e)
	if err != nil {
		return nil, err
	}
	return &nats.Msg{Subject: key.ApprovalSubject(principal), Header: header, Data: body}, nil
}

// PublishApproval stores a decision that the principal sends about the Rollout, and returns once NATS has it. An executor answers
// it with an event of [event.TypeDecided], whose id is that of [event.DecidedID]. Sending it again is harmless, and brings the same
// answer once more to those who subscribe to the subject of events; the stream of events keeps it once.
func (q *Queue) PublishApproval(ctx context.Context, key Key, principal string, e event.Event) error {
	m, err := ApprovalMessage(key, principal, e)
	if err != nil {
		return fmt.Errorf("publish approval: %w: %w", ErrBadApproval, err)
	}
	if err := q.publishMessage(ctx, m); err != nil {
		return fmt.Errorf("publish approval %s of %s: %w", e.ID(), key, err)
	}
	return nil
}

// ErrBadApproval says that an event cannot be sent as a decision; the error that wraps it says why.
var ErrBadApproval = errors.New("the event is no approval of this Rollout")
