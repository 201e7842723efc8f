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

// DefaultWorkers is the number of Rollouts that an analyzer measures in parallel by default. It is high because a worker mostly waits for answers.
const DefaultWorkers = 64

// Options configure an analyzer.
type Options struct {
	// ClusterName is the name of the cluster in subjects and events.
	ClusterName string
	Kube        *kube.AnalysisClient
	Queue       *queue.Queue
	// Metrics sends queries to the providers. The caller that created it closes it.
	Metrics *metric.Client
	// Workers is the number of Rollouts measured in parallel; 0 means DefaultWorkers.
	Workers int
	// ProblemRetry is the delay before the analyzer retries a run that it cannot measure; 0 means 30 s.
	ProblemRetry time.Duration
	// Clock is time.Now except in tests.
	Clock func() time.Time
	// Logger may be nil.
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// kubeClient holds the requests of an analyzer to the cluster, and store its requests to NATS. Tests stop the analyzer between them.
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

// Analyzer measures metrics of releases. Its method Handle is safe for concurrent use with different keys.
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

// Run takes work from the queue until ctx is done, then finishes the runs that have begun.
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

// maxRounds bounds the rounds of one run that begin again because another client wrote meanwhile.
const maxRounds = 5

// Handle makes the due measurements of one Rollout, writes their result into the status, and asks for another run when more is due.
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
