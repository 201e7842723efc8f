package queue

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"

	"sluice.dev/sluice/pkg/event"
)

// Approval is a decision, or another request from outside, as NATS delivered it.
type Approval struct {
	Key Key
	// Verb is what NATS, or the approval receiver, has allowed the sender: one of the verbs of [event.Request].
	Verb string
	// Principal is the sender. NATS, or the approval receiver, has checked it; the event's own claim about its sender
	// does not count.
	Principal string
	Event     event.Event
	// Malformed says why the message has no valid event; nil if it has one.
	Malformed error
	// Arrived is the time at which NATS stored the message.
	Arrived time.Time
}

// ApprovalHandler decides about one approval and answers it. After an error, or if the process dies before it returns,
// it is called again after a while, and must give the same answer. A panic counts as an error.
type ApprovalHandler func(ctx context.Context, a Approval) error

// ApprovalOptions configure [Queue.ConsumeApprovals].
type ApprovalOptions struct {
	// Cluster is the cluster of the approvals; "*" takes the approvals of all clusters.
	Cluster string
	// Task is TaskRelease for approvals of Rollouts, and TaskFleet for requests about FleetRollouts.
	Task string
	// Workers is the number of approvals, of different Rollouts, handled at once; at least 1.
	Workers int
	Handler ApprovalHandler
	Logger  *slog.Logger
}

const (
	// approvalWait is how long NATS waits before it redelivers a message whose consumer sends no sign of life.
	approvalWait = 30 * time.Second
	// approvalBacklog bounds the deliveries that wait for one worker.
	approvalBacklog  = 8
	approvalRetryMax = 30 * time.Second
)

// approvalConsumer is one ConsumeApprovals call. One worker handles the approvals of a Rollout, one after the other.
type approvalConsumer struct {
	ApprovalOptions
	queue  *Queue
	seed   maphash.Seed
	shards []chan jetstream.Msg
}

// ConsumeApprovals handles approvals until ctx is done, and then waits a bounded time for those under way. It
// acknowledges each once the handler has returned without an error. Several processes share the work. It survives the
// loss of NATS and of its streams, and returns nil after an orderly stop.
func (q *Queue) ConsumeApprovals(ctx context.Context, o ApprovalOptions) error {
	if o.Cluster != "*" {
		if err := validName(o.Cluster); err != nil {
			return fmt.Errorf("consume approvals of cluster %q: %w", o.Cluster, err)
		}
	}
	if o.Logger == nil {
		o.Logger = q.log
	}
	a := &approvalConsumer{ApprovalOptions: o, queue: q, seed: maphash.MakeSeed()}
	for range max(1, o.Workers) {
		a.shards = append(a.shards, make(chan jetstream.Msg, approvalBacklog))
	}
	runs, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var workers sync.WaitGroup
	for _, shard := range a.shards {
		workers.Go(func() {
			for msg := range shard {
				a.processApproval(ctx, runs, msg)
			}
		})
	}
	err := a.queue.feedConsumer(ctx, a.Logger, "approvals", a.attachConsumer, a.fetchApprovals)
	for _, shard := range a.shards {
		close(shard)
	}
	done := make(chan struct{})
	go func() { workers.Wait(); close(done) }()
	if !closedWithin(done, stopGrace) {
		cancel()
		if !closedWithin(done, stopBound) {
			err = errors.Join(err, errors.New("stop consuming approvals: a handler did not end in time"))
		}
	}
	return err
}

// attachConsumer makes sure that the stream and the durable consumer exist. The consumer receives only subjects with
// four tokens, see approvalRecordSubject; about a FleetRollout, five.
func (a *approvalConsumer) attachConsumer(ctx context.Context) (jetstream.Consumer, error) {
	if err := a.queue.ensureStreams(ctx); err != nil {
		return nil, err
	}
	name, prefix, tokens := "approval", approvalPrefix, ".*.*.*"
	if a.Task == TaskFleet {
		name, prefix, tokens = "fleet-request", fleetRequestPrefix, ".*.*.*.*"
	}
	cfg := jetstream.ConsumerConfig{
		Durable: name, FilterSubject: prefix + "*" + tokens, Description: "Executors, for decisions from outside",
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: approvalWait, MaxDeliver: -1, MaxAckPending: maxAckPending,
	}
	if a.Cluster != "*" {
		cfg.Durable += "-" + subjectToken(a.Cluster)
		cfg.FilterSubject = prefix + subjectToken(a.Cluster) + tokens
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	cons, err := a.queue.js.CreateConsumer(ctx, StreamApprovals, cfg)
	if errors.Is(err, jetstream.ErrConsumerExists) {
		cons, err = a.queue.js.UpdateConsumer(ctx, StreamApprovals, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("make consumer %s: %w", cfg.Durable, err)
	}
	return cons, nil
}

// fetchApprovals hands deliveries to the workers. It returns nil when ctx is done, and an error when the consumer must
// be attached again.
func (a *approvalConsumer) fetchApprovals(ctx context.Context, cons jetstream.Consumer) error {
	for ctx.Err() == nil {
		batch, err := cons.Fetch(len(a.shards), jetstream.FetchMaxWait(fetchWait))
		if err == nil {
			for msg := range batch.Messages() {
				a.dispatchApproval(ctx, msg)
			}
			err = batch.Error()
		}
		if err != nil {
			return fmt.Errorf("fetch approvals: %w", err)
		}
	}
	return nil
}

func (a *approvalConsumer) dispatchApproval(ctx context.Context, msg jetstream.Msg) {
	key, _, _, err := ParseRequestSubject(msg.Subject())
	if err != nil {
		a.Logger.Warn("dropping a message without an address for the answer", "subject", msg.Subject(), "error", err)
		a.settleDelivery(msg, jetstream.Msg.Term)
		return
	}
	shard := a.shards[maphash.Comparable(a.seed, key)%uint64(len(a.shards))]
	select {
	case shard <- msg:
	case <-ctx.Done():
		a.settleDelivery(msg, jetstream.Msg.Nak)
	}
}

// processApproval handles one delivery, or returns it to NATS when the process is stopping.
func (a *approvalConsumer) processApproval(ctx, runs context.Context, msg jetstream.Msg) {
	if ctx.Err() != nil {
		a.settleDelivery(msg, jetstream.Msg.Nak)
		return
	}
	meta, err := msg.Metadata()
	if err != nil {
		a.Logger.Warn("dropping a message without metadata", "subject", msg.Subject(), "error", err)
		a.settleDelivery(msg, jetstream.Msg.Term)
		return
	}
	held, release := context.WithCancel(runs)
	var keeper sync.WaitGroup
	keeper.Go(func() { a.extendDelivery(held, msg) })
	panicked, err := a.callHandler(runs, msg, meta.Timestamp)
	release()
	keeper.Wait()
	switch {
	case err == nil:
		a.settleDelivery(msg, jetstream.Msg.Ack)
	case panicked && meta.NumDelivered >= maxDeliver:
		a.Logger.Error("an approval is given up, because deciding about it panicked again and again; it is still in stream "+StreamApprovals,
			"subject", msg.Subject(), "sequence", meta.Sequence.Stream, "error", err)
		a.settleDelivery(msg, jetstream.Msg.Term)
	default:
		delay := min(backoffFirst<<min(meta.NumDelivered-1, 10), approvalRetryMax)
		a.Logger.Warn("an approval waits to be decided", "subject", msg.Subject(), "retryIn", delay, "error", err)
		a.settleDelivery(msg, nakIn(delay))
	}
}

// callHandler calls the handler and turns a panic into an error.
func (a *approvalConsumer) callHandler(ctx context.Context, msg jetstream.Msg, arrived time.Time) (panicked bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			a.Logger.Error("deciding about an approval panicked", "subject", msg.Subject(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			panicked, err = true, fmt.Errorf("panic: %v", p)
		}
	}()
	in := Approval{Arrived: arrived}
	if in.Key, in.Verb, in.Principal, err = ParseRequestSubject(msg.Subject()); err != nil {
		return false, err
	}
	in.Event, in.Malformed = event.Decode(msg.Headers(), msg.Data())
	if in.Malformed == nil {
		text, _ := in.Event.Extensions()[headerTrace].(string)
		ctx = WithTraceparent(ctx, text)
	}
	ctx, decide := startSpan(ctx, "decide", trace.SpanKindConsumer, in.Key)
	defer func() { endSpan(decide, err) }()
	return false, a.Handler(ctx, in)
}

// extendDelivery tells NATS every two seconds that the delivery is still being handled.
func (a *approvalConsumer) extendDelivery(ctx context.Context, msg jetstream.Msg) {
	tick := time.NewTicker(inProgressEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.settleDelivery(msg, jetstream.Msg.InProgress)
		}
	}
}

// settleDelivery tells NATS the outcome of a delivery. A lost message costs one more delivery.
func (a *approvalConsumer) settleDelivery(msg jetstream.Msg, word func(jetstream.Msg) error) {
	if err := word(msg); err != nil {
		a.Logger.Debug("settle approval", "subject", msg.Subject(), "error", err)
	}
}
