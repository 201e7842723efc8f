package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"sluice.dev/sluice/pkg/event"
)

const (
	headerSchedule = "Nats-Schedule"
	headerTarget   = "Nats-Schedule-Target"
	headerMsgID    = "Nats-Msg-Id"
)

// PublishHint asks the consumers of the key's task and cluster for a run, and returns once NATS has stored the hint. It
// replaces a hint that still waits. For a stream of changes see [Hinter].
func (q *Queue) PublishHint(ctx context.Context, key Key) error {
	if err := key.Validate(); err != nil {
		return fmt.Errorf("hint: %w", err)
	}
	// It has no message id: two equal hints are two reasons for a run.
	m := nats.NewMsg(key.WorkSubject())
	stampMessage(ctx, m)
	if err := q.publishMessage(ctx, m); err != nil {
		return fmt.Errorf("hint %s: %w", key, err)
	}
	return nil
}

// SetTimer makes NATS send a hint for the key at the given time, up to 250 ms late. A key has one timer: the newest
// replaces the one before. A time in the past fires at once.
func (q *Queue) SetTimer(ctx context.Context, key Key, at time.Time) error {
	if err := key.Validate(); err != nil {
		return fmt.Errorf("set timer: %w", err)
	}
	m := nats.NewMsg(key.TimerSubject())
	// Not with the client's own helper, which cuts the time to whole seconds.
	m.Header.Set(headerSchedule, "@at "+at.UTC().Format(time.RFC3339Nano))
	m.Header.Set(headerTarget, key.WorkSubject())
	if err := q.publishMessage(ctx, m); err != nil {
		return fmt.Errorf("set timer of %s: %w", key, err)
	}
	return nil
}

// KeyOf returns the key of a Rollout, or of a FleetRollout.
func KeyOf(r event.Rollout) Key {
	k := Key{Cluster: r.Cluster, Namespace: r.Namespace, Name: r.Name}
	if r.Fleet {
		k.Task = TaskFleet
	}
	return k
}

// Rollout is the inverse of [KeyOf], without the UID.
func (k Key) Rollout() event.Rollout {
	return event.Rollout{Cluster: k.Cluster, Namespace: k.Namespace, Name: k.Name, Fleet: k.Task == TaskFleet}
}

// PublishEvent stores an event about a Rollout or a FleetRollout, on the subject of its source. A repeated event within ten minutes is
// stored once.
func (q *Queue) PublishEvent(ctx context.Context, e event.Event) error {
	about, err := event.ParseSource(e.Source())
	if err != nil {
		return fmt.Errorf("publish event %s: %w", e.ID(), err)
	}
	key := KeyOf(about)
	if err := key.Validate(); err != nil {
		return fmt.Errorf("publish event %s: %w", e.ID(), err)
	}
	header, body, err := event.Encode(stampEvent(ctx, e))
	if err != nil {
		return fmt.Errorf("publish event: %w", err)
	}
	m := &nats.Msg{Subject: key.EventSubject(), Header: header, Data: body}
	m.Header.Set(headerMsgID, e.ID())
	if err := q.publishMessage(ctx, m); err != nil {
		return fmt.Errorf("publish event %s: %w", e.ID(), err)
	}
	return nil
}

func (q *Queue) publishMessage(ctx context.Context, m *nats.Msg) error {
	return q.withRecovery(ctx, func(ctx context.Context) error {
		_, err := q.js.PublishMsg(ctx, m)
		return err
	})
}
