package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"sluice.dev/sluice/pkg/event"
)

// ApprovalSubject is the subject of the principal's decisions about the Rollout. NATS permissions say which user may
// publish for which principal.
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

// ApprovalMessage returns the message with the principal's decision about the Rollout, for callers with a NATS
// connection of their own. It has no Nats-Msg-Id. Otherwise another sender could use the id first, and NATS would drop
// this message. An executor decides a repeated message once, and answers it twice.
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

// PublishApproval stores the principal's decision about the Rollout, and returns once NATS has it. An executor answers
// it with an event of [event.TypeDecided] and the id of [event.DecidedID]. A repeated message is harmless. It sends the
// same answer once more to the subscribers of the event subject; the stream of events keeps one.
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

// ErrBadApproval says that an event is not valid as a decision; the error that wraps it says why.
var ErrBadApproval = errors.New("the event is no approval of this Rollout")
