package watcher

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/queue"
)

// Options say what a watcher watches and whom it tells.
type Options struct {
	// ClusterName is the name of the cluster in subjects.
	ClusterName string
	Config      *rest.Config
	Queue       *queue.Queue
	// ScriptConfigMap holds users' scripts.
	ScriptConfigMap types.NamespacedName
	// Resync is how often every Rollout is looked at although nothing happened; zero means ten minutes.
	Resync     time.Duration
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

const (
	defaultResync = 10 * time.Minute
	// sweepEvery is how often wake-up times are checked, overdue how late one must be to be swept: its timer was lost.
	sweepEvery = 5 * time.Second
	overdue    = 5 * time.Second
)

// Watcher is one watcher. Make it with New.
type Watcher struct {
	Options
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
	index  *index
	hinter *queue.Hinter
	hints  prometheus.Counter
	synced atomic.Bool

	// ctx and stop belong to Run; routes are the gateway kinds being watched.
	mu     sync.Mutex
	routes map[schema.GroupVersionKind]bool
	waits  []func()
}

// New makes a watcher without starting it.
func New(o Options) (*Watcher, error) {
	config := rest.CopyConfig(o.Config)
	config.UserAgent = "sluice-watcher"
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client of watcher: %w", err)
	}
	discover, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make discovery client of watcher: %w", err)
	}
	if o.Resync == 0 {
		o.Resync = defaultResync
	}
	w := &Watcher{
		Options: o, client: client, index: newIndex(), routes: map[schema.GroupVersionKind]bool{},
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discover)),
		hinter: queue.NewHinter(o.Queue.Hint, o.Logger),
		hints: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_watcher_hints_total", Help: "Hints given, before those for the same rollout are put together.",
		}),
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(w.hints)
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
	defer w.waitForSources()

	var synced []cache.InformerSynced
	for _, s := range w.sources(ctx) {
		has, done, err := s.run(ctx, w.client, w.Logger)
		if err != nil {
			cancel()
			return err
		}
		w.mu.Lock()
		w.waits = append(w.waits, done)
		w.mu.Unlock()
		synced = append(synced, has)
	}
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		w.synced.Store(true)
		w.Logger.Info("watching", "cluster", w.ClusterName)
	}
	w.sweep(ctx)
	return nil
}

func (w *Watcher) waitForSources() {
	w.mu.Lock()
	waits := w.waits
	w.mu.Unlock()
	for _, wait := range waits {
		wait()
	}
}

// sources are the resources that every release may look at; gateway kinds are added as Rollouts name them.
func (w *Watcher) sources(ctx context.Context) []source {
	named := func(kind schema.GroupKind) func(*fact, bool) {
		return func(f *fact, _ bool) { w.hintDependents(kind, f.Namespace, f.Name) }
	}
	apps := schema.GroupVersion{Group: "apps", Version: "v1"}
	return []source{
		{resource: api.RolloutResource(), project: rolloutFacts, changed: func(f *fact, gone bool) { w.rolloutChanged(ctx, f, gone) }},
		{resource: apps.WithResource("deployments"), project: deploymentFacts, changed: named(deploymentKind)},
		{resource: schema.GroupVersionResource{Version: "v1", Resource: "services"}, project: serviceFacts, changed: named(serviceKind)},
		{
			resource: schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
			options:  func(o *metav1.ListOptions) { o.LabelSelector = api.LabelRolloutUID },
			project:  endpointFacts,
			changed:  func(f *fact, _ bool) { w.hintDependents(serviceKind, f.Namespace, f.Labels[serviceNameLabel]) },
		},
		{
			resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, namespace: w.ScriptConfigMap.Namespace,
			options: func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + w.ScriptConfigMap.Name },
			project: contentFacts,
			changed: func(*fact, bool) { w.hintMatching(func(d *dependencies) bool { return d.scripts }) },
		},
		{
			resource: schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
			project:  presenceFacts,
			changed:  func(*fact, bool) { w.kindsChanged(ctx) },
		},
		{
			resource: schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicybindings"},
			project:  presenceFacts,
			changed:  func(*fact, bool) { w.hintMatching(func(*dependencies) bool { return true }) },
		},
	}
}

func (w *Watcher) rolloutChanged(ctx context.Context, f *fact, gone bool) {
	name := types.NamespacedName{Namespace: f.Namespace, Name: f.Name}
	if gone {
		w.index.put(name, nil)
		return
	}
	if w.index.seen(name, f) {
		return
	}
	w.index.put(name, f.rollout)
	w.watchRoutes(ctx)
	w.hint(name)
}

// watchRoutes starts watching the gateway kinds that are named and not watched yet. A kind that does not exist yet is tried
// again when a CustomResourceDefinition changes.
func (w *Watcher) watchRoutes(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for gvk := range w.index.routeKinds() {
		if w.routes[gvk] {
			continue
		}
		mapping, err := w.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			w.Logger.Debug("gateway kind is not served", "kind", gvk.String(), "error", err)
			continue
		}
		kind := gvk.GroupKind()
		s := source{resource: mapping.Resource, project: routeFacts, changed: func(f *fact, _ bool) { w.hintDependents(kind, f.Namespace, f.Name) }}
		_, done, err := s.run(ctx, w.client, w.Logger)
		if err != nil {
			w.Logger.Error("watch gateway kind", "kind", gvk.String(), "error", err)
			continue
		}
		w.routes[gvk] = true
		w.waits = append(w.waits, done)
	}
}

// kindsChanged looks again for kinds that did not exist, and wakes who waits for one.
func (w *Watcher) kindsChanged(ctx context.Context) {
	w.mapper.Reset()
	w.watchRoutes(ctx)
	w.hintMatching(func(d *dependencies) bool { return len(d.refs) > 0 })
}

func (w *Watcher) hint(name types.NamespacedName) {
	w.hints.Inc()
	w.hinter.Hint(queue.Key{Cluster: w.ClusterName, Namespace: name.Namespace, Name: name.Name})
}

func (w *Watcher) hintDependents(kind schema.GroupKind, namespace, name string) {
	for _, rollout := range w.index.dependents(object{kind.Group, kind.Kind, types.NamespacedName{Namespace: namespace, Name: name}}) {
		w.hint(rollout)
	}
}

func (w *Watcher) hintMatching(want func(*dependencies) bool) {
	for _, name := range w.index.matching(want) {
		w.hint(name)
	}
}

// sweep brings back what lost messages would have brought: overdue wake-ups, and once in a while everything.
func (w *Watcher) sweep(ctx context.Context) {
	sweeps, resyncs := time.NewTicker(sweepEvery), time.NewTicker(w.Resync)
	defer sweeps.Stop()
	defer resyncs.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-sweeps.C:
			w.hintMatching(func(d *dependencies) bool { return !d.wakeAt.IsZero() && now.Sub(d.wakeAt) > overdue })
		case <-resyncs.C:
			w.hintMatching(func(*dependencies) bool { return true })
		}
	}
}
