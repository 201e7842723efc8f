package fleethub

import (
	"errors"
	"sync"

	"sluice.dev/sluice/pkg/fleetmessage"
	"sluice.dev/sluice/pkg/queue"
)

// openedMessages remember which messages were opened, because a signature takes longer to check than a run has for each of many clusters.
type openedMessages struct {
	mu    sync.Mutex
	known map[string]openedMessage
}

// openedMessage is the last message of a subject that was opened.
type openedMessage struct {
	state queue.FleetState
	// by is what the message was checked against.
	by string
	// order is what orders the messages of the subject: an older one does not count. last is the highest.
	order, last int64
	answer      fleetmessage.Answer
	sent        fleetmessage.Order
	signer      string
	err         error
}

// open returns the last message of a subject, checked against by. fresh: it was opened now.
func (o *openedMessages) open(subject string, state queue.FleetState, by string, do func(last int64) (openedMessage, error)) (m openedMessage, fresh bool) {
	o.mu.Lock()
	before := o.known[subject]
	o.mu.Unlock()
	if before.state.Same(state) && before.by == by {
		return before, false
	}
	m, err := do(before.last)
	m.state, m.by, m.err, m.last = state, by, err, max(before.last, m.order)
	o.mu.Lock()
	o.known[subject] = m
	o.mu.Unlock()
	return m, true
}

// noteRefusal counts and logs a message that counts for nothing.
func (h *Hub) noteRefusal(kind, member string, err error) {
	var refusal *fleetmessage.Refusal
	if !errors.As(err, &refusal) {
		return
	}
	h.metrics.refusals.WithLabelValues(kind, string(refusal.Reason)).Inc()
	h.Logger.Warn("a message of a cluster is refused", "kind", kind, "member", member, "reason", refusal.Reason, "error", err)
}
