package fleethub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nkeys"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleetmessage"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/queue"
)

const (
	// planEvery is the least time between two runs of a FleetRollout because of what its clusters do. Commands run at once.
	planEvery = 250 * time.Millisecond
	// readyRetry is the delay of a run that comes before the hub has read the messages of its clusters.
	readyRetry = 200 * time.Millisecond
	// startBound is how long the hub may take to read everything at its start before it says so.
	startBound = 15 * time.Second
)

// Options configure a hub.
type Options struct {
	// ClusterName is the name of the hub's cluster on NATS.
	ClusterName string
	Config      *rest.Config
	Queue       *queue.Queue
	// Workers is the number of FleetRollouts that run in parallel; at least 1.
	Workers int
	// Keys returns the private keys of the hub, the preferred one first. Clusters get orders by the first key that they trust.
	Keys func() ([]nkeys.KeyPair, error)
	// Clock is time.Now except in tests.
	Clock      func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Hub works on FleetRollouts.
type Hub struct {
	Options
	kube *kube.HubClient
	// orders and answers are the last messages to and from all clusters.
	orders, answers *queue.FleetStates
	opened          openedMessages
	beats           *beats
	metrics         *metrics
	hinter          *queue.Hinter
	outbox          outbox
	// soon has FleetRollouts that run a short time after the run before.
	soon workqueue.TypedDelayingInterface[types.NamespacedName]

	// uid identifies the cluster of the hub. Run reads it.
	uid string
	// started is when this process began to listen to the clusters.
	started time.Time

	mu sync.Mutex
	// ran is when each FleetRollout has run last in this process.
	ran map[types.NamespacedName]time.Time
	// counted is when the status of each FleetRollout was written last for its counts alone.
	counted map[types.NamespacedName]time.Time
}

// New makes a hub without starting it.
func New(o Options) (*Hub, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	h := &Hub{
		Options: o, opened: openedMessages{known: map[string]openedMessage{}}, ran: map[types.NamespacedName]time.Time{}, counted: map[types.NamespacedName]time.Time{},
		soon: workqueue.NewTypedDelayingQueue[types.NamespacedName](),
	}
	h.hinter = queue.NewHinter(o.Queue.PublishHint, o.Logger)
	h.outbox.cluster, h.outbox.publish = o.ClusterName, o.Queue.PublishEvent
	h.orders = o.Queue.NewFleetStates(queue.StreamFleetDown, func(string) {})
	h.answers = o.Queue.NewFleetStates(queue.StreamFleetUp, h.answerArrived)
	var err error
	if h.kube, err = kube.NewHubClient(o.Config, kube.HubChanges{FleetRollout: h.hintNow, FleetTarget: h.hintSoon, Other: h.hintAll}, o.Logger); err != nil {
		return nil, err
	}
	h.beats = newBeats(h)
	h.metrics = newMetrics(o.Registerer, h)
	return h, nil
}

// Run listens to the clusters, and takes FleetRollouts from the queue until ctx is done. Then it finishes the runs that have begun.
func (h *Hub) Run(ctx context.Context) error {
	defer h.kube.FlushEvents()
	var err error
	if h.uid, err = h.kube.ClusterUID(ctx); err != nil {
		return err
	}
	if err := h.Queue.CreateHubStreams(ctx); err != nil {
		return err
	}
	h.started = h.Clock()
	stop, err := h.Queue.SubscribeBeats(fleetmessage.BeatSubject("*"), h.beats.receive)
	if err != nil {
		return err
	}
	defer stop()
	// The last run ends before the watches do.
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	listening, watches := errgroup.WithContext(watching)
	listening.Go(func() error { h.kube.Start(watches); return nil })
	listening.Go(func() error { return h.orders.Run(watches) })
	listening.Go(func() error { return h.answers.Run(watches) })
	listening.Go(func() error { h.hinter.Run(watches); return nil })
	listening.Go(func() error { h.sendSoonHints(); return nil })
	listening.Go(func() error { h.beats.watch(watches); return nil })
	working, work := errgroup.WithContext(ctx)
	working.Go(func() error {
		return h.Queue.Consume(work, queue.ConsumeOptions{
			Cluster: h.ClusterName, Task: queue.TaskFleet, Workers: h.Workers, Handler: h.Handle, Logger: h.Logger, Metrics: queue.NewMetrics(h.Registerer, queue.TaskFleet),
		})
	})
	working.Go(func() error {
		return h.Queue.ConsumeApprovals(work, queue.ApprovalOptions{
			Cluster: h.ClusterName, Task: queue.TaskFleet, Workers: h.Workers, Handler: h.DecideRequest, Logger: h.Logger,
		})
	})
	err = working.Wait()
	cancel()
	h.soon.ShutDown()
	return errors.Join(err, listening.Wait())
}

// Ready returns an error until the hub knows the objects and the messages of its fleet.
func (h *Hub) Ready() error {
	switch {
	case !h.kube.IsUsable():
		return errors.New("the watches of the fleet's objects do not work yet")
	case !h.answers.IsSynced() || !h.orders.IsSynced():
		return errors.New("the messages of the fleet are not read yet")
	}
	return nil
}

// Handle runs one FleetRollout as far as possible now.
func (h *Hub) Handle(ctx context.Context, key queue.Key) (r queue.Result) {
	defer func() { r.RetryAfter = apiclient.RetryAfter(r.Err) }()
	if err := h.Ready(); err != nil {
		if h.Clock().Sub(h.started) > startBound {
			return queue.Result{Err: err}
		}
		return queue.Result{WakeAt: h.Clock().Add(readyRetry)}
	}
	name := types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
	h.noteRun(name)
	wake, err := h.reconcile(ctx, name)
	switch {
	case apiclient.IsConflict(err), errors.Is(err, queue.ErrFleetStale): // another executor has gone on, and this one learns of it soon
		h.metrics.conflicts.Inc()
		h.Logger.Debug("the fleet has moved on meanwhile", "namespace", name.Namespace, "fleetrollout", name.Name, "error", err)
		return queue.Result{WakeAt: h.Clock().Add(readyRetry)}
	case err != nil:
		return queue.Result{Err: fmt.Errorf("fleet rollout %s: %w", name, err)}
	}
	return queue.Result{WakeAt: wake}
}

func (h *Hub) queueKey(of types.NamespacedName) queue.Key {
	return queue.Key{Cluster: h.ClusterName, Namespace: of.Namespace, Name: of.Name, Task: queue.TaskFleet}
}

// hintNow asks for a run of a FleetRollout.
func (h *Hub) hintNow(name types.NamespacedName) { h.hinter.Hint(h.queueKey(name)) }

// hintSoon asks for a run of a FleetRollout, planEvery after the last run here at the earliest.
func (h *Hub) hintSoon(name types.NamespacedName) {
	h.mu.Lock()
	wait := planEvery - h.Clock().Sub(h.ran[name])
	h.mu.Unlock()
	h.soon.AddAfter(name, max(0, wait))
}

// hintAll asks for a run of each FleetRollout.
func (h *Hub) hintAll() {
	if !h.kube.IsUsable() {
		return // each is added when its watch begins
	}
	for _, r := range h.kube.FleetRollouts() {
		h.hintSoon(types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
	}
}

func (h *Hub) sendSoonHints() {
	for {
		name, shutdown := h.soon.Get()
		if shutdown {
			return
		}
		h.hintNow(name)
		h.soon.Done(name)
	}
}

// maxRemembered bounds the memory of when FleetRollouts have run.
const maxRemembered = 10_000

func (h *Hub) noteRun(name types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ran) > maxRemembered {
		clear(h.ran)
		clear(h.counted)
	}
	h.ran[name] = h.Clock()
}

// answerArrived asks for a run of the FleetRollout that an answer is about. It governs the Rollout of its own namespace and name.
func (h *Hub) answerArrived(subject string) {
	if _, rollout, err := fleetmessage.ParseSubject(subject); err == nil {
		h.hintSoon(types.NamespacedName(rollout))
	}
}

// governorOf returns the reference to a FleetRollout in the Rollouts that it governs.
func governorOf(r *api.FleetRollout) api.FleetReference {
	return api.FleetReference{Namespace: r.Namespace, Name: r.Name}
}
