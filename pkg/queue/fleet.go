package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// This file is the hub's side of the messages of a fleet: the last order and the last answer of each subject.

const (
	// fleetRereadEvery and up to fleetRereadSpread more is how often each side of a fleet reads its subjects again. What a lost message said is known
	// then.
	fleetRereadEvery  = 5 * time.Minute
	fleetRereadSpread = 30 * time.Second
)

// CreateHubStreams creates the streams of a fleet's hub, now and whenever they are missing.
func (q *Queue) CreateHubStreams(ctx context.Context) error {
	q.hub.Store(true)
	if err := q.applyWithRetry(ctx); err != nil {
		return fmt.Errorf("make the streams of the fleet: %w", err)
	}
	return nil
}

// ErrFleetStale says that another process has published to the subject since the sequence that the message names.
var ErrFleetStale = errors.New("another process has published to the subject meanwhile")

// FleetState is the last message of a subject.
type FleetState struct {
	Data []byte
	// Seq is the sequence of the message in its stream.
	Seq uint64
}

// Same reports whether two states are the same message. The sequence alone does not tell: those of a stream that was made again begin with 1.
func (s FleetState) Same(other FleetState) bool {
	return s.Seq == other.Seq && bytes.Equal(s.Data, other.Data)
}

// FleetStates are the last messages of all subjects of one stream of a fleet. Their methods are safe for concurrent use.
type FleetStates struct {
	queue   *Queue
	stream  string
	changed func(subject string)

	mu     sync.Mutex
	states map[string]FleetState
	synced bool
}

// NewFleetStates returns states that [FleetStates.Run] reads. It calls changed with each subject that has another message than before. changed must not
// block.
func (q *Queue) NewFleetStates(stream string, changed func(subject string)) *FleetStates {
	return &FleetStates{queue: q, stream: stream, changed: changed, states: map[string]FleetState{}}
}

// Run reads the stream until ctx is done. It begins again after each interruption, and from time to time. It returns an error when the connection was closed.
func (s *FleetStates) Run(ctx context.Context) error {
	return s.queue.feedConsumer(ctx, s.queue.log, "messages of the fleet", s.openConsumer, s.readStates)
}

func (s *FleetStates) openConsumer(ctx context.Context) (cons jetstream.Consumer, err error) {
	err = s.queue.withRecovery(ctx, func(ctx context.Context) error {
		cons, err = s.queue.js.CreateConsumer(ctx, s.stream, jetstream.ConsumerConfig{
			DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubject: ">", AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: readerIdle,
		})
		return err
	})
	return cons, err
}

// readStates reads all subjects once, and then follows them. Subjects without a message any more are gone after the first part.
func (s *FleetStates) readStates(ctx context.Context, cons jetstream.Consumer) error {
	reading, cancel := context.WithTimeout(ctx, fleetRereadEvery+rand.N(fleetRereadSpread))
	defer cancel()
	found := map[string]FleetState{}
	if cons.CachedInfo().NumPending == 0 {
		s.replace(found)
		found = nil
	}
	err := s.queue.readConsumer(reading, cons, func(m jetstream.Msg, meta *jetstream.MsgMetadata) bool {
		state := FleetState{Data: m.Data(), Seq: meta.Sequence.Stream}
		if found == nil {
			s.store(m.Subject(), state)
			return true
		}
		found[m.Subject()] = state
		if meta.NumPending == 0 {
			s.replace(found)
			found = nil
		}
		return true
	})
	if reading.Err() != nil {
		return nil // time to begin again
	}
	return err
}

func (s *FleetStates) replace(found map[string]FleetState) {
	var changed []string
	s.mu.Lock()
	for subject, state := range found {
		if !s.states[subject].Same(state) {
			changed = append(changed, subject)
		}
	}
	for subject := range s.states {
		if _, is := found[subject]; !is {
			changed = append(changed, subject)
		}
	}
	s.states, s.synced = found, true
	s.mu.Unlock()
	for _, subject := range changed {
		s.changed(subject)
	}
}

func (s *FleetStates) store(subject string, state FleetState) {
	s.mu.Lock()
	newer := state.Seq > s.states[subject].Seq
	if newer {
		s.states[subject] = state
	}
	s.mu.Unlock()
	if newer {
		s.changed(subject)
	}
}

// Get returns the last message of a subject, zero if there is none.
func (s *FleetStates) Get(subject string) FleetState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.states[subject]
}

// IsSynced reports whether the states have been read completely once.
func (s *FleetStates) IsSynced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced
}

// Subjects returns the subjects that have a message, in any order.
func (s *FleetStates) Subjects() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]string, 0, len(s.states))
	for subject := range s.states {
		list = append(list, subject)
	}
	return list
}

// Publish publishes a message in the place of the last one that the caller knows, whose sequence is last, 0 for none. The error is [ErrFleetStale] if that is
// not the last one any more.
func (s *FleetStates) Publish(ctx context.Context, subject string, data []byte, last uint64) error {
	var ack *jetstream.PubAck
	err := s.queue.withRecovery(ctx, func(ctx context.Context) (err error) {
		ack, err = s.queue.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: data}, jetstream.WithExpectLastSequencePerSubject(last))
		return err
	})
	if isWrongSequence(err) {
		return ErrFleetStale
	}
	if err != nil {
		return fmt.Errorf("publish to %s: %w", subject, err)
	}
	s.store(subject, FleetState{Data: data, Seq: ack.Sequence})
	return nil
}

// isWrongSequence reports whether NATS has refused a message because of the last sequence that it names.
func isWrongSequence(err error) bool {
	var refused *jetstream.APIError
	return errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}

// SubscribeBeats calls handle with the subject and the content of each heartbeat of a cluster, until the caller calls stop.
func (q *Queue) SubscribeBeats(subjects string, handle func(subject string, data []byte)) (stop func(), err error) {
	sub, err := q.nc.Subscribe(subjects, func(m *nats.Msg) { handle(m.Subject, m.Data) })
	if err != nil {
		return nil, fmt.Errorf("listen for heartbeats: %w", err)
	}
	return func() {
		if err := sub.Unsubscribe(); err != nil && !q.nc.IsClosed() {
			q.log.Debug("stop listening for heartbeats", "error", err)
		}
	}, nil
}

// WatchEvents returns a channel that receives after each event about a Rollout or a FleetRollout, until the caller calls stop. Events that come while one waits in
// the channel are one.
func (q *Queue) WatchEvents(key Key) (changed <-chan struct{}, stop func(), err error) {
	c := make(chan struct{}, 1)
	sub, err := q.nc.Subscribe(key.EventSubject(), func(*nats.Msg) {
		select {
		case c <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("listen for events of %s: %w", key, err)
	}
	return c, func() {
		if err := sub.Unsubscribe(); err != nil && !q.nc.IsClosed() {
			q.log.Debug("stop listening for events", "error", err)
		}
	}, nil
}
