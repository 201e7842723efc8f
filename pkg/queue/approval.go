package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"sluice.dev/sluice/pkg/event"
)

// RequestSubject is the subject of the principal's requests about the Rollout or the FleetRollout. NATS permissions say which user may publish for which
// principal. The subject of a FleetRollout also has the verb of the request, so that they can say who may release and who may approve.
func (k Key) RequestSubject(verb, principal string) string {
	if k.Task == TaskFleet {
		return fleetRequestPrefix + k.rolloutTokens() + "." + verb + "." + PrincipalToken(principal)
	}
	return approvalPrefix + k.rolloutTokens() + "." + PrincipalToken(principal)
}

// ParseRequestSubject is the inverse of [Key.RequestSubject]. The verb about a Rollout is [event.VerbApprove].
func ParseRequestSubject(subject string) (key Key, verb, principal string, err error) {
	task, verb := TaskRelease, event.VerbApprove
	rest, ours := strings.CutPrefix(subject, approvalPrefix)
	p := strings.Split(rest, ".")
	if fleet, is := strings.CutPrefix(subject, fleetRequestPrefix); is {
		p = strings.Split(fleet, ".")
		if ours = len(p) == 5; ours {
			task, verb, p = TaskFleet, p[3], append(p[:3:3], p[4])
		}
	}
	if !ours || len(p) != 4 {
		return Key{}, "", "", fmt.Errorf("parse subject %q: want sluice.approval.<cluster>.<namespace>.<name>.<principal>, or sluice.fleet.request.<cluster>.<namespace>.<name>.<verb>.<principal>", subject)
	}
	if key, err = parseTokens(p[:3], task); err != nil {
		return Key{}, "", "", fmt.Errorf("parse subject %q: %w", subject, err)
	}
	if principal, err = ParsePrincipal(p[3]); err != nil {
		return Key{}, "", "", fmt.Errorf("parse subject %q: %w", subject, err)
	}
	return key, verb, principal, nil
}

// ApprovalMessage returns the message with the principal's request about the Rollout or the FleetRollout, for callers with a NATS
// connection of their own. It has no Nats-Msg-Id. Otherwise another sender could use the id first, and NATS would drop
// this message. An executor decides a repeated message once, and answers it twice.
func ApprovalMessage(key Key, principal string, e event.Event) (*nats.Msg, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	if err := validPrincipal(principal); err != nil {
		return nil, fmt.Errorf("principal %q: %w", principal, err)
	}
	request, err := event.ParseRequest(e)
	if err != nil {
		return nil, err
	}
	about := request.About
	if about.Cluster = key.Cluster; KeyOf(about) != key {
		return nil, fmt.Errorf("the event is about %s, and not about Rollout %s", about.Subject(), key)
	}
	header, body, err := event.Encode(e)
	if err != nil {
		return nil, err
	}
	return &nats.Msg{Subject: key.RequestSubject(request.Verb(), principal), Header: header, Data: body}, nil
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
