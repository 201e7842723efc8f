package fleetlink

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nkeys"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleetmessage"
	"sluice.dev/sluice/pkg/queue"
)

const (
	// beatEvery is how often a cluster sends a heartbeat.
	beatEvery = 10 * time.Second
	// rereadEvery and up to rereadSpread more is how often the link reads all of its subjects again.
	rereadEvery  = 5 * time.Minute
	rereadSpread = 30 * time.Second
	// retryFirst, doubling to retryMax, is the delay after the hub's NATS has not answered.
	retryFirst = 100 * time.Millisecond
	retryMax   = 10 * time.Second
	// An order arrives before the stream of the hub has stored it. The link reads again until it is there: maxStoredWaits times,
	// first after storedFirst, and then each time after twice as long, which takes 5 s in all. An order that the stream has refused never comes.
	storedFirst    = 20 * time.Millisecond
	maxStoredWaits = 8
	// workers read and publish in parallel.
	workers = 4
)

// Options configure a link.
type Options struct {
	// NATS says how to connect to the NATS of the hub.
	NATS queue.Options
	// Member is this cluster.
	Member fleetmessage.Member
	// Hub is the UID of the hub's cluster; "" accepts each hub that has a trusted key.
	Hub string
	// Keys returns the private key of this cluster, and the public keys of the hub that it trusts.
	Keys func() (own nkeys.KeyPair, hub []string, err error)
	// ClusterName is the name of this cluster on its own NATS, and Publish sends a hint there.
	ClusterName string
	Publish     func(context.Context, queue.Key) error
	// Enforcement says what holds changes in this cluster.
	Enforcement func(context.Context) api.FleetEnforcement
	// Version is the version of Sluice.
	Version string
	// Clock is time.Now except in tests.
	Clock      func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Link is the connection of a cluster to its hub. Its methods are safe for concurrent use, and none but Run blocks.
type Link struct {
	Options
	conn    *queue.HubConnection
	metrics *metrics
	// work has the Rollouts whose messages are to be read or sent.
	work   workqueue.TypedRateLimitingInterface[types.NamespacedName]
	hinter *queue.Hinter
	// beats wakes the sender of heartbeats. process is the name of this process in them, and sent counts them.
	beats   chan struct{}
	process string
	sent    int64

	mu       sync.Mutex
	rollouts map[types.NamespacedName]*exchange
}

// exchange is what hub and cluster have told each other about one Rollout.
type exchange struct {
	// order is the last order, as far as it was read. stale: there may be a newer one.
	order queue.FleetState
	stale bool
	// arrived is the order that has arrived and was not read yet, nil for none, and waits counts the reads without it.
	arrived []byte
	waits   int
	// refused is why that order was refused, "" if it counts.
	refused string
	// known: the last answer on the stream is known. sent is that answer, nil for none, and seq its sequence.
	known bool
	sent  *fleetmessage.Answer
	seq   uint64
	// generation counts the answers of others that this process has read. A report of an executor that looked before the last one does not count.
	generation int64
	// next is the answer to send. sending: one is on its way.
	next    *fleetmessage.Answer
	sending bool
}

// New returns a link that does not connect before Run.
func New(o Options) *Link {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Link{
		Options: o, metrics: newMetrics(o.Registerer), hinter: queue.NewHinter(o.Publish, o.Logger), beats: make(chan struct{}, 1), process: cryptorand.Text(), rollouts: map[types.NamespacedName]*exchange{},
		work: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryFirst, retryMax)),
	}
}

// Run connects to the hub, and exchanges messages until ctx is done.
func (l *Link) Run(ctx context.Context) error {
	conn, err := queue.ConnectHub(l.NATS, l.Member.Name, l.connected)
	if err != nil {
		return err
	}
	defer conn.Close()
	l.conn = conn
	if err := conn.SubscribeOrders(fleetmessage.OrderSubjects(l.Member.Name), l.orderArrived); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, l.work.ShutDown)()
	var running sync.WaitGroup
	running.Go(func() { l.sendBeats(ctx) })
	running.Go(func() { l.rereadAll(ctx) })
	running.Go(func() { l.hinter.Run(ctx) })
	for range workers {
		running.Go(func() { l.exchangeMessages(ctx) })
	}
	running.Wait()
	return nil
}

// connected notes that the hub's NATS is reachable again, and reads all subjects: orders may have come meanwhile.
func (l *Link) connected() {
	l.Logger.Info("connected to the NATS of the hub")
	l.reread()
	select {
	case l.beats <- struct{}{}:
	default: // one is to be sent anyway
	}
}

// reread reads all subjects again.
func (l *Link) reread() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, x := range l.rollouts {
		x.known, x.stale = false, true
		l.work.Add(name)
	}
}

func (l *Link) rereadAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rereadEvery + rand.N(rereadSpread)):
			l.reread()
		}
	}
}

// orderArrived notes that the hub has said something about a Rollout.
func (l *Link) orderArrived(subject string, order []byte) {
	member, rollout, err := fleetmessage.ParseSubject(subject)
	if err != nil || member != l.Member.Name {
		l.Logger.Warn("a message of the hub has no valid subject", "subject", subject, "error", err)
		return
	}
	name := types.NamespacedName(rollout)
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.exchangeAbout(name)
	x.stale, x.arrived, x.waits = true, order, 0
	l.work.Add(name)
}

// exchangeAbout returns the exchange about a Rollout. The link reads the subjects of a new one. l.mu is held.
func (l *Link) exchangeAbout(name types.NamespacedName) *exchange {
	x := l.rollouts[name]
	if x == nil {
		x = &exchange{stale: true}
		l.rollouts[name] = x
		l.work.Add(name)
	}
	return x
}

// exchangeMessages reads and sends until ctx is done.
func (l *Link) exchangeMessages(ctx context.Context) {
	for {
		name, shutdown := l.work.Get()
		if shutdown {
			return
		}
		switch err := l.exchangeOnce(ctx, name); {
		case err == nil:
			l.work.Forget(name)
		case ctx.Err() == nil:
			l.Logger.Debug("cannot exchange messages with the hub yet", "namespace", name.Namespace, "rollout", name.Name, "error", err)
			l.work.AddRateLimited(name)
		}
		l.work.Done(name)
	}
}

// exchangeOnce reads the last order about a Rollout, and sends the answer that waits.
func (l *Link) exchangeOnce(ctx context.Context, name types.NamespacedName) error {
	l.mu.Lock()
	x := l.rollouts[name]
	if x == nil { // the hub has never heard of it, and it is gone
		l.mu.Unlock()
		return nil
	}
	stale, known := x.stale, x.known
	x.stale = false
	l.mu.Unlock()
	var newOrder, overtaken bool
	var err error
	if stale {
		newOrder, err = l.readOrder(ctx, name, x)
	}
	if err == nil && !known {
		overtaken, err = l.readAnswer(ctx, name, x)
	}
	if newOrder || overtaken {
		l.Logger.Debug("the hub has news about a Rollout", "namespace", name.Namespace, "rollout", name.Name, "order", newOrder, "answer", overtaken)
		l.hinter.Hint(queue.Key{Cluster: l.ClusterName, Namespace: name.Namespace, Name: name.Name})
	}
	if err != nil {
		return err
	}
	return l.sendAnswer(ctx, name, x)
}

// readOrder reads the last order about a Rollout. It reports whether it is another one than before.
func (l *Link) readOrder(ctx context.Context, name types.NamespacedName, x *exchange) (changed bool, err error) {
	order, err := l.conn.LastState(ctx, queue.StreamFleetDown, fleetmessage.OrderSubject(l.Member.Name, fleetmessage.Name(name)))
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		x.stale = true
		return false, err
	}
	changed = !x.order.Same(order)
	x.order = order
	switch {
	case x.arrived == nil:
	case bytes.Equal(x.arrived, order.Data), x.waits == maxStoredWaits:
		x.arrived = nil
	default:
		x.stale = true
		l.work.AddAfter(name, storedFirst<<x.waits)
		x.waits++
	}
	return changed, nil
}

// readAnswer reads the last answer of this cluster about a Rollout. It drops an answer that waits, unless it says the same: the executor made it before this
// process knew the last one, and another executor may have seen more meanwhile. It reports whether an executor must look again: it did, or the hub has lost the
// answer that this process has sent.
func (l *Link) readAnswer(ctx context.Context, name types.NamespacedName, x *exchange) (overtaken bool, err error) {
	state, err := l.conn.LastState(ctx, queue.StreamFleetUp, fleetmessage.AnswerSubject(l.Member.Name, fleetmessage.Name(name)))
	if err != nil {
		return false, err
	}
	var last *fleetmessage.Answer
	if state.Seq > 0 {
		last = l.ownAnswer(state.Data)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	overtaken = x.next != nil && !x.next.SaysSame(last) || x.sent != nil && !x.sent.SaysSame(last)
	if state.Seq != x.seq {
		x.generation++
	}
	x.known, x.sent, x.seq, x.next = true, last, state.Seq, nil
	return overtaken, nil
}

// ownAnswer decodes an answer that this cluster has sent; nil if it has not.
func (l *Link) ownAnswer(message []byte) *fleetmessage.Answer {
	own, _, err := l.Keys()
	if err != nil {
		return nil
	}
	public, err := own.PublicKey()
	if err != nil {
		return nil
	}
	answer, err := fleetmessage.Expected{Member: l.Member, Keys: []string{public}}.ReadAnswer(message)
	if err != nil || answer.Member != l.Member { // a cluster that had the name before has another UID
		return nil
	}
	return &answer
}

// sendAnswer sends the answer that waits, if it says something new.
func (l *Link) sendAnswer(ctx context.Context, name types.NamespacedName, x *exchange) error {
	l.mu.Lock()
	next, sent, seq := x.next, x.sent, x.seq
	switch {
	case next != nil && next.Gone() && sent == nil && x.order.Data == nil: // the hub has never heard of it
		delete(l.rollouts, name)
		next = nil
	case next != nil && next.SaysSame(sent):
		x.next, next = nil, nil
	}
	x.sending = next != nil
	l.mu.Unlock()
	if next == nil {
		return nil
	}
	message, err := l.sealAnswer(next, sent)
	sealed := err == nil
	var stored uint64
	if sealed {
		stored, err = l.conn.PublishState(ctx, fleetmessage.AnswerSubject(l.Member.Name, next.Rollout), message, seq)
	}
	l.metrics.countAnswer(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	x.sending = false
	if err != nil {
		if sealed { // it may have been stored
			x.known = false
		}
		if errors.Is(err, queue.ErrFleetStale) {
			l.work.Add(name)
			return nil
		}
		return err
	}
	x.sent, x.seq = next, stored
	if x.next == next {
		x.next = nil
	}
	return nil
}

// sealAnswer signs an answer that takes the place of the last one.
func (l *Link) sealAnswer(next, last *fleetmessage.Answer) ([]byte, error) {
	now := l.Clock()
	next.Member, next.Version, next.Time, next.Sent = l.Member, l.Version, now, now.UnixMicro()
	if last != nil {
		next.Sent = max(next.Sent, last.Sent+1)
	}
	own, _, err := l.Keys()
	if err != nil {
		return nil, err
	}
	return next.Seal(own)
}

// sendBeats sends heartbeats until ctx is done.
func (l *Link) sendBeats(ctx context.Context) {
	for {
		if err := l.sendBeat(ctx); err != nil && ctx.Err() == nil {
			l.Logger.Debug("cannot send a heartbeat to the hub", "error", err)
		}
		l.metrics.setConnected(l.conn.IsConnected())
		select {
		case <-ctx.Done():
			return
		case <-l.beats:
		case <-time.After(beatEvery):
		}
	}
}

func (l *Link) sendBeat(ctx context.Context) error {
	own, hub, err := l.Keys()
	if err != nil {
		l.Logger.Warn("cannot read the keys of the fleet", "error", err)
		return err
	}
	l.sent++
	message, err := fleetmessage.Beat{
		Member: l.Member, Time: l.Clock(), Process: l.process, Number: l.sent, Version: l.Version, Enforcement: l.Enforcement(ctx), HubKeys: hub, Refused: l.lastRefusal(),
	}.Seal(own)
	if err != nil {
		return err
	}
	return l.conn.SendBeat(fleetmessage.BeatSubject(l.Member.Name), message)
}
