package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"sluice.dev/sluice/pkg/event"
)

var (
	// ErrDenied says that NATS does not allow this user the operation.
	ErrDenied = errors.New("NATS does not allow it")
	// ErrUndecided says that a decision may have arrived, and that no answer came in time.
	ErrUndecided = errors.New("it is not decided yet")
)

const (
	// sendTry bounds one attempt to send a decision. A NATS cluster that lost a node may take that long to elect
	// another leader.
	sendTry   = 5 * time.Second
	sendPause = 500 * time.Millisecond
	// The client sends the decision again while no answer comes. The answer may have been sent while the connection was
	// down.
	askAgain    = 5 * time.Second
	askAgainMax = time.Minute
	// answersHeld is how many events about one Rollout the client buffers.
	answersHeld = 256
)

// PendingApproval is a decision that was sent and waits for its answer. Its owner closes it.
type PendingApproval struct {
	queue     *Queue
	key       Key
	principal string
	approval  event.Event
	// decisionID is the id of the event with the answer.
	decisionID string
	events     chan *nats.Msg
	sub        *nats.Subscription
}

// RequestApproval sends a decision as [Queue.PublishApproval] does, until NATS has stored it or ctx ends. It listens
// for the answer before the first attempt. It needs the rights to publish the decision, and to subscribe to the
// Rollout's events and to an inbox. Without one of them it returns ErrDenied at once. If ctx ends after NATS left an
// attempt unanswered, it returns ErrUndecided, because the decision may be stored.
func (q *Queue) RequestApproval(ctx context.Context, key Key, principal string, e event.Event) (*PendingApproval, error) {
	if _, err := ApprovalMessage(key, principal, e); err != nil {
		return nil, fmt.Errorf("send decision: %w: %w", ErrBadApproval, err)
	}
	x := &PendingApproval{
		queue: q, key: key, principal: principal, approval: e, events: make(chan *nats.Msg, answersHeld),
		decisionID: event.DecidedID(key.Rollout(), principal, e.Source(), e.ID()),
	}
	var err error
	if x.sub, err = q.nc.ChanSubscribe(key.EventSubject(), x.events); err != nil {
		return nil, fmt.Errorf("listen for the answer: %w", err)
	}
	if err := q.SendApproval(ctx, key, principal, e); err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// SendApproval is RequestApproval for callers that do not wait for the answer.
func (q *Queue) SendApproval(ctx context.Context, key Key, principal string, e event.Event) error {
	m, err := ApprovalMessage(key, principal, e)
	if err != nil {
		return fmt.Errorf("send decision: %w: %w", ErrBadApproval, err)
	}
	allowed, stop := q.denials.watchSubjects(ctx, m.Subject, key.EventSubject(), q.inbox)
	defer stop()
	var refused error // the last refusal of NATS
	unanswered := false
	for warned := false; ; {
		try, cancel := context.WithTimeout(allowed, sendTry)
		err := q.PublishApproval(try, key, principal, e)
		cancel()
		if denied := context.Cause(allowed); errors.Is(denied, ErrDenied) {
			return denied
		}
		if err == nil || errors.Is(err, ErrBadApproval) {
			return err
		}
		switch silent := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout); {
		case !silent:
			refused = err
		case ctx.Err() == nil || refused == nil: // an attempt that ctx ended would have failed like those before
			unanswered = true
		}
		if !warned {
			q.log.Warn("NATS did not take the decision, trying on", "error", err)
			warned = true
		}
		select {
		case <-ctx.Done():
			if unanswered {
				return fmt.Errorf("%w: %w", ErrUndecided, err)
			}
			return refused
		case <-time.After(sendPause):
		}
	}
}

// WaitForDecision waits for the answer, an event of [event.TypeDecided]. It returns ErrUndecided if ctx ends first.
func (x *PendingApproval) WaitForDecision(ctx context.Context) (event.Event, error) {
	allowed, stop := x.queue.denials.watchSubjects(ctx, x.key.EventSubject())
	defer stop()
	pause := askAgain
	again := time.NewTimer(pause)
	defer again.Stop()
	for {
		select {
		case m := <-x.events:
			if e, err := event.Decode(m.Header, m.Data); err == nil && e.ID() == x.decisionID && e.Type() == event.TypeDecided {
				return e, nil
			}
		case <-again.C:
			pause = min(2*pause, askAgainMax)
			again.Reset(pause)
			try, cancel := context.WithTimeout(ctx, sendTry)
			if err := x.queue.PublishApproval(try, x.key, x.principal, x.approval); err != nil {
				x.queue.log.Warn("the decision could not be sent again, still waiting for its answer", "error", err)
			}
			cancel()
		case <-allowed.Done():
			if denied := context.Cause(allowed); errors.Is(denied, ErrDenied) {
				return event.Event{}, denied
			}
			return event.Event{}, ErrUndecided
		}
	}
}

// Close stops listening.
func (x *PendingApproval) Close() {
	// It fails only on a closed connection, which has no subscriptions.
	_ = x.sub.Unsubscribe()
}

// denials tell the users of a subject that NATS denies it. NATS reports a denial apart from the request, and never
// answers the request.
type denials struct {
	mu      sync.Mutex
	waiting map[*denial]bool
}

type denial struct {
	subjects []string
	cancel   context.CancelCauseFunc
}

// watchSubjects returns a context that ends with ErrDenied as its cause when NATS denies one of the subjects, or one below it.
func (d *denials) watchSubjects(ctx context.Context, subjects ...string) (allowed context.Context, stop func()) {
	allowed, cancel := context.WithCancelCause(ctx)
	entry := &denial{subjects: subjects, cancel: cancel}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting == nil {
		d.waiting = map[*denial]bool{}
	}
	d.waiting[entry] = true
	return allowed, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiting, entry)
		cancel(nil)
	}
}

// cancelDenied cancels the users of a subject that NATS denies.
func (d *denials) cancelDenied(complaint error) {
	if !errors.Is(complaint, nats.ErrPermissionViolation) {
		return
	}
	text := complaint.Error()
	d.mu.Lock()
	defer d.mu.Unlock()
	for entry := range d.waiting {
		for _, subject := range entry.subjects {
			if strings.Contains(text, `"`+subject+`"`) || strings.Contains(text, `"`+subject+`.`) {
				entry.cancel(fmt.Errorf("%w: %s", ErrDenied, strings.TrimPrefix(text, nats.ErrPermissionViolation.Error()+": ")))
			}
		}
	}
}
