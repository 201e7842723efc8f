package watcher

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/script"
)

// Options say what a watcher watches and whom it tells.
type Options struct {
	// ClusterName is the name of the cluster in subjects.
	ClusterName string
	Config      *rest.Config
	Queue       *queue.Queue
	// ScriptConfigMap holds users' scripts.
	ScriptConfigMap types.NamespacedName
	// Scripts select further kinds to watch, in addition to the kinds that Rollouts name: kinds that the routing by these depends on, and cluster-scoped
	// kinds even if no Rollout names them any more; nil watches none.
	Scripts *script.Library
	// Resync is how often every Rollout is looked at although nothing happened; zero means ten minutes.
	Resync     time.Duration
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

const (
	defaultResync = 10 * time.Minute
	// patience is how long the start waits for the other first lists after the list of Rollouts. A kind that cannot be listed, for example without a
	// permission, must not keep the other kinds from being watched.
	patience = 3 * time.Second
)

// Watcher is one watcher. Make it with New.
type Watcher struct {
	Options
	clients
	index *index
	// routings finds TrafficRoutings as index does Rollouts.
	routings *index
	hinter   *queue.Hinter
	send     func(queue.Key)
	// workStreamCreated is the creation time of the stream of hints.
	workStreamCreated func(context.Context) (time.Time, error)
	hints             prometheus.Counter
	// synced: everything that exists has been seen. started: hints are sent.
	synced, started atomic.Bool
	// findRequests has the kinds looked for that Rollouts name; looked says that they were, once.
	findRequests chan struct{}
	kindsFound   atomic.Bool

	mu sync.Mutex
	// watches are the watches of kinds that Rollouts name. Only findKinds writes them.
	watches map[namedKind]*kindWatch
	// defined are the kinds of no namespace, and the kinds of policies, that are defined.
	defined map[schema.GroupVersionKind]bool
	// scripted is replaced, and never changed.
	scripted scriptedKinds
	// gathered are the Rollouts to hint soon.
	gathered map[types.NamespacedName]bool
	// policyGone is when an admission policy went, until everybody was told again.
	policyGone time.Time
}

// New makes a watcher without starting it.
func New(o Options) (*Watcher, error) {
	clients, err := newClients(o.Config)
	if err != nil {
		return nil, err
	}
	if o.Resync == 0 {
		o.Resync = defaultResync
	}
	w := &Watcher{
		Options: o, clients: clients, index: newIndex(), routings: newIndex(), findRequests: make(chan struct{}, 1),
		watches: map[namedKind]*kindWatch{}, defined: map[schema.GroupVersionKind]bool{}, gathered: map[types.NamespacedName]bool{},
		hinter: queue.NewHinter(o.Queue.PublishHint, o.Logger),
		hints: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_watcher_hints_total", Help: "Hints given, before those for the same rollout are put together.",
		}),
	}
	w.scripted = w.scriptedKindsWith(nil)
	w.send, w.workStreamCreated = w.hinter.Hint, o.Queue.WorkStreamCreated
	if o.Registerer != nil {
		o.Registerer.MustRegister(w.hints, newStalledGauge(w.index))
	}
	return w, nil
}

// Ready returns nil once everything that exists has been seen.
func (w *Watcher) Ready() error {
	if !w.synced.Load() {
		return fmt.Errorf("the first lists have not been read yet")
	}
	return nil
}

// Run watches until ctx is done.
func (w *Watcher) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running.Go(func() { w.hinter.Run(ctx) })
	first := w.initialSources()
	rollouts, err := w.startSource(ctx, &running, first[0])
	if err != nil {
		cancel()
		return err
	}
	synced := []cache.InformerSynced{rollouts}
	for _, s := range first[1:] {
		has, err := w.startSource(ctx, &running, s)
		if err != nil {
			cancel()
			return err
		}
		synced = append(synced, has)
	}
	running.Go(func() {
		// The kinds that Rollouts name are known once all Rollouts are.
		if cache.WaitForCacheSync(ctx.Done(), rollouts) {
			w.requestFindKinds()
		}
		w.findKinds(ctx)
	})
	running.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), rollouts) {
			w.hintInitially(ctx, synced)
		}
	})
	w.sweepPeriodically(ctx)
	return nil
}

// startSource starts a source; running counts it until it has ended.
func (w *Watcher) startSource(ctx context.Context, running *sync.WaitGroup, s source) (cache.InformerSynced, error) {
	has, wait, err := s.startInformer(ctx, w.Logger)
	if err != nil {
		return nil, err
	}
	running.Go(wait)
	return has, nil
}

// hintInitially sends a hint for every Rollout once all kinds have been listed: each later change is an event.
func (w *Watcher) hintInitially(ctx context.Context, synced []cache.InformerSynced) {
	bounded, cancel := context.WithTimeout(ctx, patience)
	all := cache.WaitForCacheSync(bounded.Done(), append(slices.Clone(synced), w.kindsSynced)...)
	cancel()
	w.started.Store(true)
	w.hintEverything()
	// A user with the right to write Rollouts can name a kind that the watcher may not read. That must not keep the watcher from being ready.
	if !all && !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return
	}
	w.synced.Store(true)
	w.Logger.Info("watching", "cluster", w.ClusterName)
}

// initialSources are the resources that every release may look at, Rollouts first; further kinds are added as Rollouts name them.
func (w *Watcher) initialSources() []source {
	scripts := w.ScriptConfigMap
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	return []source{
		sourceOf("rollouts", listWatch(rolloutLister{w.core.RESTClient()}, nil), &rolloutView{}, w.index.rolloutFacts, w.rolloutChanged),
		sourceOf("trafficroutings", listWatch(w.objects.Resource(api.TrafficRoutingResource()), nil), &unstructured.Unstructured{}, routingFacts, w.routingChanged),
		sourceOf("deployments", listWatch(w.apps.Deployments(""), nil), &appsv1.Deployment{}, deploymentFacts, w.workloadChanged(deploymentKind)),
		sourceOf("services", listWatch(w.core.Services(""), nil), &corev1.Service{}, serviceFacts, w.referencedChanged(serviceKind)),
		sourceOf("endpointslices", listWatch(w.endpoints.EndpointSlices(""), nil), &discoveryv1.EndpointSlice{}, endpointFacts, w.endpointsChanged),
		sourceOf("configmaps", listWatch(w.core.ConfigMaps(scripts.Namespace), func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + scripts.Name }),
			&corev1.ConfigMap{}, w.scriptFacts, w.scriptsChanged),
		sourceOf("customresourcedefinitions", listWatch(w.objects.Resource(definitions), nil), &unstructured.Unstructured{}, definitionFacts, w.definitionChanged),
		sourceOf("namespaces", listWatch(w.metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")), nil), &metav1.PartialObjectMetadata{}, presenceFacts, w.namespaceChanged),
		w.policySource("mutatingadmissionpolicies"),
		w.policySource("mutatingadmissionpolicybindings"),
	}
}

// policySource is empty where no such policies are served, as before Kubernetes 1.36.
func (w *Watcher) policySource(resource string) source {
	policies := w.metadata.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource})
	s := sourceOf(resource, listWatch(policies, nil), &metav1.PartialObjectMetadata{}, presenceFacts, w.policyChanged)
	s.optional = true
	return s
}

// rolloutChanged runs where Rollouts are read: it must not wait for anything.
func (w *Watcher) rolloutChanged(f *fact, gone bool, u urgency) {
	name, now := f.name, f.rollout
	if gone {
		now = nil
	}
	old := w.index.putDependencies(name, now)
	if now != nil && w.hasUnwatched(now) && u > never {
		w.requestFindKinds()
	}
	w.hintByUrgency(name, u)
	if now != nil && now.startsMeasuring(old) {
		w.hintAnalysis(name)
	}
	if u == atOnce {
		w.hintRoutingsOf(old, now)
	}
	if u == atOnce && old != nil {
		// Another Rollout may have waited for this one to leave the workload.
		for _, rival := range w.index.dependentsOf(old.workload) {
			if rival != name {
				w.hintRollout(rival)
			}
		}
	}
}
