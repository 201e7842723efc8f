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

// Options configure a watcher.
type Options struct {
	// ClusterName is the name of the cluster in subjects.
	ClusterName string
	Config      *rest.Config
	Queue       *queue.Queue
	// ScriptConfigMap is the ConfigMap with the scripts of users.
	ScriptConfigMap types.NamespacedName
	// Scripts name the kinds to watch in addition to the kinds that Rollouts name. These are the kinds that routing
	// depends on. They are also the cluster-scoped kinds, although no Rollout may name them any more. Nil watches no
	// additional kinds.
	Scripts *script.Library
	// Resync is how often the watcher hints every Rollout without a change; zero means ten minutes.
	Resync     time.Duration
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

const (
	defaultResync = 10 * time.Minute
	// patience is how long the start waits for the other first lists once it has read the list of Rollouts. Resources
	// that cannot be listed, for want of a permission, must not delay the watches of the others.
	patience = 3 * time.Second
)

// Watcher is one watcher. Create it with New.
type Watcher struct {
	Options
	clients
	index *index
	// routings finds TrafficRoutings as index finds Rollouts.
	routings *index
	hinter   *queue.Hinter
	send     func(queue.Key)
	// workStreamCreated returns the creation time of the stream that hints go to.
	workStreamCreated func(context.Context) (time.Time, error)
	hints             prometheus.Counter
	// synced is true once the watcher has read every first list. started is true once it sends hints.
	synced, started atomic.Bool
	// findRequests makes findKinds look for the named kinds. kindsFound is true once it has looked.
	findRequests chan struct{}
	kindsFound   atomic.Bool

	mu sync.Mutex
	// watches are the watches of the kinds that Rollouts name. Only findKinds writes them.
	watches map[namedKind]*kindWatch
	// defined are the installed cluster-scoped kinds and kinds of policies.
	defined map[schema.GroupVersionKind]bool
	// scripted is replaced, and never changed.
	scripted scriptedKinds
	// gathered are the Rollouts to hint soon.
	gathered map[types.NamespacedName]bool
	// policyGone is the time at which an admission policy was deleted, until every Rollout has been hinted again.
	policyGone time.Time
}

// New returns a watcher without starting it.
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

// Ready returns nil once the watcher has read every first list.
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
		// The kinds that Rollouts name are known only after the list of Rollouts.
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

// hintInitially hints every Rollout once, after the first lists. From then on every change is an event.
func (w *Watcher) hintInitially(ctx context.Context, synced []cache.InformerSynced) {
	bounded, cancel := context.WithTimeout(ctx, patience)
	all := cache.WaitForCacheSync(bounded.Done(), append(slices.Clone(synced), w.kindsSynced)...)
	cancel()
	w.started.Store(true)
	w.hintEverything()
	// A user who may write Rollouts can name a kind that the watcher may not read. That must not keep the watcher from
	// being ready.
	if !all && !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return
	}
	w.synced.Store(true)
	w.Logger.Info("watching", "cluster", w.ClusterName)
}

// initialSources returns the resources that every release may depend on, Rollouts first. More kinds are added when
// Rollouts name them.
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

// hintRivals hints the other Rollouts of the workload that a Rollout had, and of the one that it has come to. They may
// have waited for it to leave the workload, or may have to wait from now on.
func (w *Watcher) hintRivals(name types.NamespacedName, old, now *dependencies) {
	var workloads []object
	for _, of := range []*dependencies{old, now} {
		if of != nil && !slices.Contains(workloads, of.workload) {
			workloads = append(workloads, of.workload)
		}
	}
	for _, workload := range workloads {
		for _, rival := range w.index.dependentsOf(workload) {
			if rival != name {
				w.hintRollout(rival)
			}
		}
	}
}

// policySource is empty if the API server does not serve such policies, as before Kubernetes 1.36.
func (w *Watcher) policySource(resource string) source {
	policies := w.metadata.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource})
	s := sourceOf(resource, listWatch(policies, nil), &metav1.PartialObjectMetadata{}, presenceFacts, w.policyChanged)
	s.optional = true
	return s
}

// rolloutChanged runs in the goroutine that reads Rollouts, so it must not block.
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
		w.hintRivals(name, old, now)
	}
}
