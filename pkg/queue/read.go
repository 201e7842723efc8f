package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sluice.dev/sluice/pkg/event"
)

// ReadOptions select the events to read.
type ReadOptions struct {
	// Cluster, Namespace and Name select the Rollouts; an empty one selects all.
	Cluster, Namespace, Name string
	// Fleet selects FleetRollouts in the place of Rollouts.
	Fleet bool
	// Since skips events that were stored before; zero means from the beginning.
	Since time.Time
	// Follow continues with new events until the context ends. Without it, reading ends at the last event that was
	// stored when it began.
	Follow bool
	// OnInterruption, if set, is called with the error when following is interrupted, and with nil once it continues.
	// The goroutine that reads calls it, and waits for it.
	OnInterruption func(error)
}

const (
	readHeartbeat = 2 * time.Second
	// readerIdle is the idle time after which the server removes the consumer of a dead reader.
	readerIdle = time.Minute
	// reread is the pause before reading continues after an error.
	reread = 250 * time.Millisecond
)

// ReadEvents reads events from SLUICE_EVENTS, in the order in which they were stored. It reads an event twice that is
// stored twice. It logs and skips messages that are not CloudEvents.
//
// An error is its last value. When it follows, only the start can fail, or the connection when NATS no longer accepts
// the credentials. A lost connection, or a stream that is created again, only delays.
func (q *Queue) ReadEvents(ctx context.Context, o ReadOptions) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		r := &eventReader{q: q, ReadOptions: o, yield: yield}
		if err := r.run(ctx); err != nil && ctx.Err() == nil {
			yield(event.Event{}, fmt.Errorf("read events: %w", err))
		}
	}
}

// eventReader is one reading, with its position.
type eventReader struct {
	q *Queue
	ReadOptions
	yield   func(event.Event, error) bool
	subject string

	// consumer reads from the stream that was created at that time. A later stream of the same name has another time.
	consumer jetstream.Consumer
	created  time.Time
	// at is the sequence number of the last event that was read; until is the number to stop at.
	at, until uint64
	// done is true if the caller wants no more events, or if all were read.
	done bool
}

// run reads until r is done, or ctx is, or an error ends it.
func (r *eventReader) run(ctx context.Context) error {
	if err := r.setSubject(); err != nil {
		return err
	}
	if err := r.q.withRecovery(ctx, r.openConsumer); err != nil {
		return err
	}
	for warned := false; ; {
		err := r.yieldEvents(ctx)
		if r.done || ctx.Err() != nil || !r.Follow {
			return err
		}
		if !warned {
			r.q.log.Warn("reading of events was interrupted, going on", "error", err)
			warned = true
		}
		r.reportInterruption(err)
		if err := r.reopenConsumer(ctx); err != nil {
			return err
		}
		r.reportInterruption(nil)
	}
}

func (r *eventReader) reportInterruption(err error) {
	if r.OnInterruption != nil {
		r.OnInterruption(err)
	}
}

func (r *eventReader) setSubject() error {
	r.subject = eventPrefix
	if r.Fleet {
		r.subject = fleetEventPrefix
	}
	for i, part := range []string{r.Cluster, r.Namespace, r.Name} {
		if i > 0 {
			r.subject += "."
		}
		if part == "" {
			r.subject += "*"
			continue
		}
		if err := validName(part); err != nil {
			return fmt.Errorf("%q: %w", part, err)
		}
		r.subject += subjectToken(part)
	}
	return nil
}

// openConsumer creates a consumer that continues after the last event that was read.
func (r *eventReader) openConsumer(ctx context.Context) error {
	stream, err := r.q.js.Stream(ctx, StreamEvents)
	if err != nil {
		return err
	}
	info := stream.CachedInfo()
	if !info.Created.Equal(r.created) {
		r.created, r.at, r.until = info.Created, 0, info.State.LastSeq
	}
	c := jetstream.ConsumerConfig{
		FilterSubject: r.subject, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: readerIdle,
	}
	switch {
	case r.at > 0:
		c.DeliverPolicy, c.OptStartSeq = jetstream.DeliverByStartSequencePolicy, r.at+1
	case !r.Since.IsZero():
		c.DeliverPolicy, c.OptStartTime = jetstream.DeliverByStartTimePolicy, &r.Since
	}
	if r.consumer, err = stream.CreateConsumer(ctx, c); err != nil {
		return err
	}
	r.done = !r.Follow && r.consumer.CachedInfo().NumPending == 0
	return nil
}

// reopenConsumer tries to open the consumer until it succeeds, ctx ends, or the connection is closed. The connection of
// a guest is closed when NATS refuses it twice.
func (r *eventReader) reopenConsumer(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(reread):
		}
		opening, cancel := context.WithTimeout(ctx, requestTimeout)
		err := r.openConsumer(opening)
		cancel()
		if err == nil {
			return nil
		}
		if r.q.nc.IsClosed() {
			return fmt.Errorf("the connection to NATS is over: %w; check the user and password, token or credentials file", cmp.Or(r.q.nc.LastError(), err))
		}
		r.q.log.Debug("events cannot be read yet", "error", err)
	}
}

// yieldEvents yields the events of the consumer, until r is done or an event may be missing.
func (r *eventReader) yieldEvents(ctx context.Context) error {
	if r.done {
		return nil
	}
	return r.q.readConsumer(ctx, r.consumer, func(m jetstream.Msg, meta *jetstream.MsgMetadata) bool {
		r.at = meta.Sequence.Stream
		r.done = !r.Follow && meta.NumPending == 0
		r.done = !r.yieldEvent(m) || r.done
		return !r.done
	})
}

// readConsumer calls take with each message of a consumer of one reader, and deletes the consumer at the end. It returns nil when take returns false. It
// returns an error when ctx ends or a message may be missing. NATS does not deliver again the messages that were on their way when a connection was lost.
func (q *Queue) readConsumer(ctx context.Context, consumer jetstream.Consumer, take func(jetstream.Msg, *jetstream.MsgMetadata) bool) error {
	info := consumer.CachedInfo()
	defer q.deleteConsumer(info.Stream, info.Name)
	lost := q.nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	defer q.nc.RemoveStatusListener(lost)
	messages, err := consumer.Messages(jetstream.PullHeartbeat(readHeartbeat), jetstream.WithMessagesErrOnMissingHeartbeat(true))
	if err != nil {
		return err
	}
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-lost:
		case <-over:
		}
		messages.Stop()
	})
	defer watch.Wait()
	defer close(over)
	for next := uint64(1); ; next++ {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil && !q.nc.IsConnected() {
			return errors.New("the connection to NATS is lost")
		}
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if meta.Sequence.Consumer != next {
			return errors.New("a message was missed")
		}
		if !take(m, meta) {
			return nil
		}
	}
}

// yieldEvent reports whether the caller wants more events.
func (r *eventReader) yieldEvent(m jetstream.Msg) bool {
	if !r.Follow && r.at > r.until {
		return false
	}
	e, err := event.Decode(m.Headers(), m.Data())
	if err != nil {
		r.q.log.Warn("a message among the events is not one and is passed over", "stream", StreamEvents, "sequence", r.at, "error", err)
		return true
	}
	return r.yield(e, nil)
}

// deleteConsumer deletes the consumer; if that fails, the server removes it later.
func (q *Queue) deleteConsumer(stream, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := q.js.DeleteConsumer(ctx, stream, name); err != nil {
		q.log.Debug("leave a reader to the server", "consumer", name, "error", err)
	}
}
