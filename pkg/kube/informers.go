package kube

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

// ByOwner and ByService are the indices of objects by what they hang on, as <namespace>/<name>.
const (
	ByOwner   = "owner"
	ByService = "service"
)

// Informers are the overlays of a client. Nothing is watched before [Client.Start] runs: until then everything is read live.
type Informers struct {
	Rollouts       *Overlay[*api.Rollout]
	Deployments    *Overlay[*appsv1.Deployment]
	ReplicaSets    *Overlay[*appsv1.ReplicaSet]
	Services       *Overlay[*corev1.Service]
	EndpointSlices *Overlay[*discoveryv1.EndpointSlice]
	Scripts        *Overlay[*corev1.ConfigMap] // nil when no ConfigMap is read
	// Templates are watched from when a Rollout names one: a cluster may not even serve them.
	Templates          *Overlay[*api.AnalysisTemplate]
	ClusterTemplates   *Overlay[*api.ClusterAnalysisTemplate]
	TemplatesRequested chan struct{}

	// RequestedKinds are kinds to be watched from now on.
	RequestedKinds chan WatchedKind
	Mu             sync.Mutex
	Kinds          map[WatchedKind]*Overlay[*unstructured.Unstructured]
}

// WatchedKind is a kind that is watched from when a Rollout names it: of gateway objects, or of workloads that are no Deployments.
type WatchedKind struct {
	schema.GroupVersionResource
	Workload bool
}

func (k WatchedKind) TrimObject(u *unstructured.Unstructured) {
	if k.Workload {
		trimWorkload(u)
	} else {
		trimGateway(u)
	}
}

// listWatcher lists and watches one resource.
type listWatcher[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

func NewListWatch[L runtime.Object](of listWatcher[L], tweak func(*metav1.ListOptions)) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			tweak(&o)
			return of.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			tweak(&o)
			return of.Watch(ctx, o)
		},
	}
}

// ListWatchREST lists and watches one resource of ours in all namespaces.
func ListWatchREST(client rest.Interface, resource string, empty func() runtime.Object) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := empty()
			return list, client.Get().Resource(resource).VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Into(list)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			return client.Get().Resource(resource).VersionedParams(&o, metav1.ParameterCodec).Watch(ctx)
		},
	}
}

func AllObjects(*metav1.ListOptions) {}

func OnlyNamed(name string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
	}
}

// NewOverlay makes an overlay. moved is told each object that was added, changed or deleted.
func NewOverlay[T Object](example T, lw *cache.ListWatch, trim func(T), indexers cache.Indexers, moved func(T)) (*Overlay[T], error) {
	m := &Overlay[T]{answered: map[string]T{}, deletions: map[types.UID]deletion{}}
	inner := lw.WatchFuncWithContext
	lw.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		w, err := inner(ctx, o)
		m.failing.Store(err != nil)
		return w, err
	}
	m.Informer = cache.NewSharedIndexInformer(lw, example, 0, indexers)
	if err := m.Informer.SetTransform(transformWith(trim)); err != nil {
		return nil, err
	}
	_, err := m.Informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if o, ok := obj.(T); ok {
				moved(o)
			}
		},
		UpdateFunc: func(_, obj any) {
			if o, ok := obj.(T); ok {
				moved(o)
			}
		},
		DeleteFunc: func(obj any) {
			if tomb, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tomb.Obj
			}
			if o, ok := obj.(T); ok {
				m.forgetDeletion(o.GetUID())
				moved(o)
			}
		},
	})
	return m, err
}

// RunInformer watches until ctx is done. What cannot be watched is read live, and log says so once.
func (m *Overlay[T]) RunInformer(ctx context.Context, warn func(error)) {
	var once sync.Once
	// The error is about a watch that was started before, which it was not.
	_ = m.Informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		m.failing.Store(true)
		once.Do(func() { warn(err) })
	})
	m.Running.Store(true)
	defer m.Running.Store(false)
	m.Informer.RunWithContext(ctx)
}

func OwnerKey(o metav1.Object) string {
	if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == "Deployment" {
		return o.GetNamespace() + "/" + owner.Name
	}
	return ""
}

func ServiceKey(slice metav1.Object) string {
	return slice.GetNamespace() + "/" + slice.GetLabels()[discoveryv1.LabelServiceName]
}

// IndexBy indexes objects by one value of theirs.
func IndexBy[T Object](name string, value func(metav1.Object) string) cache.Indexers {
	return cache.Indexers{name: func(obj any) ([]string, error) {
		if o, ok := obj.(T); ok {
			return []string{value(o)}, nil
		}
		return nil, nil
	}}
}

func (c *Client) newInformers() (m *Informers, err error) {
	m = &Informers{TemplatesRequested: make(chan struct{}, 1), RequestedKinds: make(chan WatchedKind, 64), Kinds: map[WatchedKind]*Overlay[*unstructured.Unstructured]{}}
	w, touched := c.watchClients, c.changes.notifyRollouts
	rollouts := ListWatchREST(w.rollouts, "rollouts", func() runtime.Object { return &api.RolloutList{} })
	if m.Rollouts, err = NewOverlay(&api.Rollout{}, rollouts, TrimRollout, nil, func(r *api.Rollout) { touched(itemOf(rolloutItem, r)) }); err != nil {
		return nil, err
	}
	if m.Deployments, err = NewOverlay(&appsv1.Deployment{}, NewListWatch(w.apps.Deployments(""), AllObjects), TrimDeployment, nil,
		func(d *appsv1.Deployment) { touched(itemOf(deploymentItem, d)) }); err != nil {
		return nil, err
	}
	if m.ReplicaSets, err = NewOverlay(&appsv1.ReplicaSet{}, NewListWatch(w.apps.ReplicaSets(""), AllObjects), TrimReplicaSet, IndexBy[*appsv1.ReplicaSet](ByOwner, OwnerKey),
		func(set *appsv1.ReplicaSet) { touched(trackedItem{replicaSetsItem, OwnerKey(set)}) }); err != nil {
		return nil, err
	}
	if m.Services, err = NewOverlay(&corev1.Service{}, NewListWatch(w.core.Services(""), AllObjects), TrimService, nil,
		func(svc *corev1.Service) { touched(itemOf(serviceItem, svc)) }); err != nil {
		return nil, err
	}
	if m.EndpointSlices, err = NewOverlay(&discoveryv1.EndpointSlice{}, NewListWatch(w.endpoints.EndpointSlices(""), AllObjects), TrimEndpointSlice,
		IndexBy[*discoveryv1.EndpointSlice](ByService, ServiceKey), func(slice *discoveryv1.EndpointSlice) { touched(trackedItem{endpointsItem, ServiceKey(slice)}) }); err != nil {
		return nil, err
	}
	if err := m.addTemplates(w, touched); err != nil {
		return nil, err
	}
	if name := c.opts.ScriptConfigMap; name.Name != "" {
		m.Scripts, err = NewOverlay(&corev1.ConfigMap{}, NewListWatch(w.core.ConfigMaps(name.Namespace), OnlyNamed(name.Name)), TrimConfigMap, nil,
			func(cm *corev1.ConfigMap) { touched(itemOf(scriptsItem, cm)) })
	}
	return m, err
}

// Start keeps in memory what releases look at, by watches, until ctx is done; call it once. Without it, and for what may not be
// watched, everything is read live. moved is told of each Rollout that [Client.TrackAfterRun] was called for when something of it has
// changed since; it must not block.
func (c *Client) Start(ctx context.Context, moved func(types.NamespacedName)) {
	var running sync.WaitGroup
	defer running.Wait()
	c.changes.startTracking(moved)
	defer c.changes.stopTracking()
	m := c.informers
	StartWatch(ctx, &running, c, "rollouts."+api.Group, m.Rollouts)
	StartWatch(ctx, &running, c, "deployments.apps", m.Deployments)
	StartWatch(ctx, &running, c, "replicasets.apps", m.ReplicaSets)
	StartWatch(ctx, &running, c, "services", m.Services)
	StartWatch(ctx, &running, c, "endpointslices.discovery.k8s.io", m.EndpointSlices)
	if m.Scripts != nil {
		StartWatch(ctx, &running, c, "configmaps", m.Scripts)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.TemplatesRequested:
			m.startTemplates(ctx, &running, c)
		case kind := <-m.RequestedKinds:
			if found, err := c.addKindOverlay(kind); err == nil {
				StartWatch(ctx, &running, c, kind.GroupResource().String(), found)
			} else {
				c.log.Warn("cannot watch a kind; it is read each time", "resource", kind.String(), "error", err)
			}
		}
	}
}

func StartWatch[T Object](ctx context.Context, running *sync.WaitGroup, c *Client, resource string, m *Overlay[T]) {
	running.Go(func() {
		m.RunInformer(ctx, func(err error) {
			if ctx.Err() == nil {
				c.log.Warn("cannot watch; until it can be watched it is read each time", "resource", resource, "error", err)
			}
		})
	})
}

// forKind is the overlay of a kind; it is nil, and about to come, when the kind is asked for the first time.
func (m *Informers) forKind(kind WatchedKind) *Overlay[*unstructured.Unstructured] {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	known, asked := m.Kinds[kind]
	if !asked && m.Rollouts.Running.Load() {
		select {
		case m.RequestedKinds <- kind:
			m.Kinds[kind] = nil
		default: // too many at once; the next one who asks brings it
		}
	}
	return known
}

func (m *Informers) ForGateway(gvr schema.GroupVersionResource) *Overlay[*unstructured.Unstructured] {
	return m.forKind(WatchedKind{GroupVersionResource: gvr})
}

func (m *Informers) ForWorkload(gvr schema.GroupVersionResource) *Overlay[*unstructured.Unstructured] {
	return m.forKind(WatchedKind{GroupVersionResource: gvr, Workload: true})
}

func (c *Client) addKindOverlay(kind WatchedKind) (*Overlay[*unstructured.Unstructured], error) {
	found, err := NewOverlay(&unstructured.Unstructured{}, NewListWatch(c.watchClients.objects.Resource(kind.GroupVersionResource), AllObjects), kind.TrimObject,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		func(u *unstructured.Unstructured) {
			c.changes.notifyRollouts(itemOf(kind.ItemKind(), u))
			c.changes.notifyRollouts(kind.namespaceItem(u.GetNamespace()))
		})
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", kind.Resource, err)
	}
	c.informers.Mu.Lock()
	defer c.informers.Mu.Unlock()
	c.informers.Kinds[kind] = found
	return found, nil
}

// IsWatching reports whether Rollouts are watched now.
func (c *Client) IsWatching() bool { return c.informers.Rollouts.IsUsable() }

// SyncTimeout bounds how long [Client.WaitForCacheSync] waits.
const SyncTimeout = 10 * time.Second

// WaitForCacheSync waits until the first lists are in, but not for long: what may not be listed never comes.
func (c *Client) WaitForCacheSync(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, SyncTimeout)
	defer cancel()
	m := c.informers
	cache.WaitForCacheSync(ctx.Done(), m.Rollouts.Informer.HasSynced, m.Deployments.Informer.HasSynced, m.ReplicaSets.Informer.HasSynced,
		m.Services.Informer.HasSynced, m.EndpointSlices.Informer.HasSynced)
}

// ListRollouts are all that the watch shows, which are nobody's to change. It waits for the first list of them, however long that takes.
func (c *Client) ListRollouts(ctx context.Context) []*api.Rollout {
	cache.WaitForCacheSync(ctx.Done(), c.informers.Rollouts.Informer.HasSynced)
	return c.informers.Rollouts.ListWatched()
}

// IsIdle reports whether the watches show that nobody has anything to do for a Rollout: its last release is over, and neither it nor the
// template of its workload has changed since. It knows Deployments only, and asks nobody.
func (c *Client) IsIdle(key types.NamespacedName) bool {
	r, known := c.informers.Rollouts.GetObject(key)
	if !known || r == nil || r.DeletionTimestamp != nil || r.Status.ObservedGeneration != r.Generation {
		return false
	}
	m := sluiceStatusOf(r)
	spec, err := rollout.Parse(r)
	if err != nil || m.State != string(rollout.StateIdle) || !spec.Workload.IsDeployment() {
		return false
	}
	d, known := c.informers.Deployments.GetObject(types.NamespacedName{Namespace: key.Namespace, Name: spec.Workload.Name})
	if !known || d == nil {
		return false
	}
	_, held := d.Annotations[api.AnnotationInProgressing]
	return !held && workload.TemplateRevision(d.Spec.Template) == m.CanaryRevision
}

// IdleSince is since when the watches show no release of a Rollout. ok is false while there is one, and before the first.
func (c *Client) IdleSince(key types.NamespacedName) (since time.Time, ok bool) {
	r, known := c.informers.Rollouts.GetObject(key)
	if !known || r == nil {
		return time.Time{}, false
	}
	m := sluiceStatusOf(r)
	if m.State != string(rollout.StateIdle) || m.Epoch == 0 || m.Since == nil {
		return time.Time{}, false
	}
	return m.Since.Time, true
}
