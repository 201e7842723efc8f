package analyzer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/metric"
	"sluice.dev/sluice/pkg/queue"
)

// DefaultWorkers is how many Rollouts an analyzer works on at once unless it is told otherwise: most of the time of one is spent
// waiting for answers.
const DefaultWorkers = 64

// Options say with what an analyzer works.
type Options struct {
	// ClusterName is the name of the cluster in subjects and events.
	ClusterName string
	Kube        *kube.AnalysisClient
	Queue       *queue.Queue
	// Metrics asks the providers. Whoever made it closes it.
	Metrics *metric.Client
	// Workers is the number of Rollouts worked on at once; 0 means DefaultWorkers.
	Workers int
	// ProblemRetry is how long an analyzer waits before it looks again at a run that it cannot measure; 0 means 30 s.
	ProblemRetry time.Duration
	// Clock is time.Now but in tests.
	Clock func() time.Time
	// Logger may be nil.
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// kubeClient is what an analyzer does in the cluster, and store what it does in NATS. Tests put deaths in between.
type kubeClient interface {
	ObserveRuns(ctx context.Context, name types.NamespacedName, live bool) (*kube.AnalysisView, error)
	WriteRuns(ctx context.Context, v *kube.AnalysisView, step, release *api.AnalysisRun) error
	ReadSecret(ctx context.Context, name types.NamespacedName) (map[string][]byte, error)
	TrackView(v *kube.AnalysisView)
}

type store interface {
	PublishEvent(ctx context.Context, e event.Event) error
	LoadSums(ctx context.Context, run string) ([]byte, uint64, error)
	SaveSums(ctx context.Context, run string, data []byte, revision uint64) (uint64, error)
}

// Analyzer measures. Its method Handle is safe for concurrent use with different keys.
type Analyzer struct {
	Options
	kube        kubeClient
	store       store
	selfMetrics *selfMetrics
}

const defaultProblemRetry = 30 * time.Second

// New makes an analyzer without starting it.
func New(o Options) *Analyzer {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Workers <= 0 {
		o.Workers = DefaultWorkers
	}
	if o.ProblemRetry == 0 {
		o.ProblemRetry = defaultProblemRetry
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Analyzer{Options: o, kube: o.Kube, store: o.Queue, selfMetrics: newSelfMetrics(o.Registerer, o.Clock)}
}

// Run takes work from the queue until ctx is done, then finishes what is under way.
func (a *Analyzer) Run(ctx context.Context) error {
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	again := newRequeuer(a)
	var running sync.WaitGroup
	running.Go(func() { a.Kube.Start(watching, again.names.Add) })
	running.Go(func() { again.requeueChanged(watching) })
	defer running.Wait()
	defer again.names.ShutDown()
	defer stop()
	a.Kube.WaitForCacheSync(ctx)
	return a.Queue.Consume(ctx, queue.ConsumeOptions{
		Cluster: a.ClusterName, Task: queue.TaskAnalysis, Workers: a.Workers, Handler: a.Handle, Requeue: again.keys,
		Logger: a.Logger, Metrics: queue.NewMetrics(a.Registerer, queue.TaskAnalysis),
	})
}

// maxRounds bounds how often one run looks again because somebody else has written meanwhile.
const maxRounds = 5

// Handle measures what is due of one Rollout, shows what that says, and asks to be called again when more is due.
func (a *Analyzer) Handle(ctx context.Context, key queue.Key) (r queue.Result) {
	defer func() { r.RetryAfter = apiclient.RetryAfter(r.Err) }()
	name := types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
	for round := range maxRounds {
		wake, err := a.reconcileOnce(ctx, name, round > 0)
		switch {
		case apiclient.IsGone(err):
			a.selfMetrics.untrackRollout(name)
			return queue.Result{}
		case apiclient.IsConflict(err) || errors.Is(err, queue.ErrSumsConflict):
			a.selfMetrics.conflicts.Inc()
			continue
		case err != nil:
			return queue.Result{Err: fmt.Errorf("analyse rollout %s: %w", name, err)}
		}
		return queue.Result{WakeAt: wake}
	}
	return queue.Result{Err: fmt.Errorf("analyse rollout %s: others wrote %d times meanwhile", name, maxRounds)}
}
