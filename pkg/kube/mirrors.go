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

// byOwner and byService are the indices of objects by what they hang on, as <namespace>/<name>.
const (
	byOwner   = "owner"
	byService = "service"
)

// mirrors are the mirrors of a client. Nothing is watched before [Client.Keep] runs: until then everything is read live.
type mirrors struct {
	rollouts    *mirror[*api.Rollout]
	deployments *mirror[*appsv1.Deployment]
	sets        *mirror[*appsv1.ReplicaSet]
	services    *mirror[*corev1.Service]
	slices      *mirror[*discoveryv1.EndpointSlice]
	scripts     *mirror[*corev1.ConfigMap] // nil when no ConfigMap is read
	// templates are watched from when a Rollout names one: a cluster may not even serve them.
	templates        *mirror[*api.AnalysisTemplate]
	clusterTemplates *mirror[*api.ClusterAnalysisTemplate]
	measured         chan struct{}

	// wanted are kinds to be watched from now on.
	wanted chan watchedKind
	mu     sync.Mutex
	kinds  map[watchedKind]*mirror[*unstructured.Unstructured]
}

// watchedKind is a kind that is watched from when a Rollout names it: of gateway objects, or of workloads that are no Deployments.
type watchedKind struct {
	schema.GroupVersionResource
	workload bool
}

func (k watchedKind) trim(u *unstructured.Unstructured) {
	if k.workload {
		trimWorkload(u)
	} else {
		trimGateway(u)
	}
}

// lister lists and watches one resource.
type lister[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

func listWatch[L runtime.Object](of lister[L], tweak func(*metav1.ListOptions)) *cache.ListWatch {
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

// ours lists and watches one resource of ours in all namespaces.
func ours(client rest.Interface, resource string, empty func() runtime.Object) *cache.ListWatch {
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

func everything(*metav1.ListOptions) {}

func named(name string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
	}
}

// mirrorOf makes a mirror. moved is told each object that was added, changed or deleted.
func mirrorOf[T object](example T, lw *cache.ListWatch, trim func(T), indexers cache.Indexers, moved func(T)) (*mirror[T], error) {
	m := &mirror[T]{newer: map[string]T{}, going: map[types.UID]departure{}}
	inner := lw.WatchFuncWithContext
	lw.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		w, err := inner(ctx, o)
		m.failing.Store(err != nil)
		return w, err
	}
	m.informer = cache.NewSharedIndexInformer(lw, example, 0, indexers)
	if err := m.informer.SetTransform(trimmed(trim)); err != nil {
		return nil, err
	}
	_, err := m.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
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
				m.forget(o.GetUID())
				moved(o)
			}
		},
	})
	return m, err
}

// keep watches until ctx is done. What cannot be watched is read live, and log says so once.
func (m *mirror[T]) keep(ctx context.Context, warn func(error)) {
	var once sync.Once
	// The error is about a watch that was started before, which it was not.
	_ = m.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		m.failing.Store(true)
		once.Do(func() { warn(err) })
	})
	m.running.Store(true)
	defer m.running.Store(false)
	m.informer.RunWithContext(ctx)
}

func ownerName(o metav1.Object) string {
	if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == "Deployment" {
		return o.GetNamespace() + "/" + owner.Name
	}
	return ""
}

func serviceOf(slice metav1.Object) string {
	return slice.GetNamespace() + "/" + slice.GetLabels()[discoveryv1.LabelServiceName]
}

// indexed indexes objects by one value of theirs.
func indexed[T object](name string, value func(metav1.Object) string) cache.Indexers {
	return cache.Indexers{name: func(obj any) ([]string, error) {
		if o, ok := obj.(T); ok {
			return []string{value(o)}, nil
		}
		return nil, nil
	}}
}

func (c *Client) newMirrors() (m *mirrors, err error) {
	m = &mirrors{measured: make(chan struct{}, 1), wanted: make(chan watchedKind, 64), kinds: map[watchedKind]*mirror[*unstructured.Unstructured]{}}
	w, touched := c.watching, c.recent.touched
	rollouts := ours(w.rollouts, "rollouts", func() runtime.Object { return &api.RolloutList{} })
	if m.rollouts, err = mirrorOf(&api.Rollout{}, rollouts, trimRollout, nil, func(r *api.Rollout) { touched(itemOf(rolloutItem, r)) }); err != nil {
		return nil, err
	}
	if m.deployments, err = mirrorOf(&appsv1.Deployment{}, listWatch(w.apps.Deployments(""), everything), trimDeployment, nil,
		func(d *appsv1.Deployment) { touched(itemOf(deploymentItem, d)) }); err != nil {
		return nil, err
	}
	if m.sets, err = mirrorOf(&appsv1.ReplicaSet{}, listWatch(w.apps.ReplicaSets(""), everything), trimReplicaSet, indexed[*appsv1.ReplicaSet](byOwner, ownerName),
		func(set *appsv1.ReplicaSet) { touched(item{setsItem, ownerName(set)}) }); err != nil {
		return nil, err
	}
	if m.services, err = mirrorOf(&corev1.Service{}, listWatch(w.core.Services(""), everything), trimService, nil,
		func(svc *corev1.Service) { touched(itemOf(serviceItem, svc)) }); err != nil {
		return nil, err
	}
	if m.slices, err = mirrorOf(&discoveryv1.EndpointSlice{}, listWatch(w.endpoints.EndpointSlices(""), everything), trimEndpointSlice,
		indexed[*discoveryv1.EndpointSlice](byService, serviceOf), func(slice *discoveryv1.EndpointSlice) { touched(item{endpointsItem, serviceOf(slice)}) }); err != nil {
		return nil, err
	}
	if err := m.mirrorTemplates(w, touched); err != nil {
		return nil, err
	}
	if name := c.opts.ScriptConfigMap; name.Name != "" {
		m.scripts, err = mirrorOf(&corev1.ConfigMap{}, listWatch(w.core.ConfigMaps(name.Namespace), named(name.Name)), trimConfigMap, nil,
			func(cm *corev1.ConfigMap) { touched(itemOf(scriptsItem, cm)) })
	}
	return m, err
}

// Keep keeps in memory what releases look at, by watches, until ctx is done; call it once. Without it, and for what may not be
// watched, everything is read live. moved is told of each Rollout that [Client.Rest] was called for when something of it has
// changed since; it must not block.
func (c *Client) Keep(ctx context.Context, moved func(types.NamespacedName)) {
	var running sync.WaitGroup
	defer running.Wait()
	c.recent.start(moved)
	defer c.recent.stop()
	m := c.mirrors
	keep(ctx, &running, c, "rollouts."+api.Group, m.rollouts)
	keep(ctx, &running, c, "deployments.apps", m.deployments)
	keep(ctx, &running, c, "replicasets.apps", m.sets)
	keep(ctx, &running, c, "services", m.services)
	keep(ctx, &running, c, "endpointslices.discovery.k8s.io", m.slices)
	if m.scripts != nil {
		keep(ctx, &running, c, "configmaps", m.scripts)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.measured:
			m.keepTemplates(ctx, &running, c)
		case kind := <-m.wanted:
			if found, err := c.mirrorKind(kind); err == nil {
				keep(ctx, &running, c, kind.GroupResource().String(), found)
			} else {
				c.log.Warn("cannot watch a kind; it is read each time", "resource", kind.String(), "error", err)
			}
		}
	}
}

func keep[T object](ctx context.Context, running *sync.WaitGroup, c *Client, resource string, m *mirror[T]) {
	running.Go(func() {
		m.keep(ctx, func(err error) {
			if ctx.Err() == nil {
				c.log.Warn("cannot watch; until it can be watched it is read each time", "resource", resource, "error", err)
			}
		})
	})
}

// of is the mirror of a kind; it is nil, and about to come, when the kind is asked for the first time.
func (m *mirrors) of(kind watchedKind) *mirror[*unstructured.Unstructured] {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, asked := m.kinds[kind]
	if !asked && m.rollouts.running.Load() {
		select {
		case m.wanted <- kind:
			m.kinds[kind] = nil
		default: // too many at once; the next one who asks brings it
		}
	}
	return known
}

func (m *mirrors) gateway(gvr schema.GroupVersionResource) *mirror[*unstructured.Unstructured] {
	return m.of(watchedKind{GroupVersionResource: gvr})
}

func (m *mirrors) workload(gvr schema.GroupVersionResource) *mirror[*unstructured.Unstructured] {
	return m.of(watchedKind{GroupVersionResource: gvr, workload: true})
}

func (c *Client) mirrorKind(kind watchedKind) (*mirror[*unstructured.Unstructured], error) {
	found, err := mirrorOf(&unstructured.Unstructured{}, listWatch(c.watching.objects.Resource(kind.GroupVersionResource), everything), kind.trim,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		func(u *unstructured.Unstructured) {
			c.recent.touched(itemOf(kind.item(), u))
			c.recent.touched(kind.all(u.GetNamespace()))
		})
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", kind.Resource, err)
	}
	c.mirrors.mu.Lock()
	defer c.mirrors.mu.Unlock()
	c.mirrors.kinds[kind] = found
	return found, nil
}

// Watches reports whether Rollouts are watched now.
func (c *Client) Watches() bool { return c.mirrors.rollouts.usable() }

// syncLimit bounds how long [Client.Synced] waits.
const syncLimit = 10 * time.Second

// Synced waits until the first lists are in, but not for long: what may not be listed never comes.
func (c *Client) Synced(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, syncLimit)
	defer cancel()
	m := c.mirrors
	cache.WaitForCacheSync(ctx.Done(), m.rollouts.informer.HasSynced, m.deployments.informer.HasSynced, m.sets.informer.HasSynced,
		m.services.informer.HasSynced, m.slices.informer.HasSynced)
}

// Rollouts are all that the watch shows, which are nobody's to change. It waits for the first list of them, however long that takes.
func (c *Client) Rollouts(ctx context.Context) []*api.Rollout {
	cache.WaitForCacheSync(ctx.Done(), c.mirrors.rollouts.informer.HasSynced)
	return c.mirrors.rollouts.all()
}

// AtRest reports whether the watches show that nobody has anything to do for a Rollout: its last release is over, and neither it nor the
// template of its workload has changed since. It knows Deployments only, and asks nobody.
func (c *Client) AtRest(key types.NamespacedName) bool {
	r, known := c.mirrors.rollouts.get(key)
	if !known || r == nil || r.DeletionTimestamp != nil || r.Status.ObservedGeneration != r.Generation {
		return false
	}
	m := machineOf(r)
	spec, err := rollout.Parse(r)
	if err != nil || m.State != string(rollout.StateIdle) || !isDeployment(spec.Workload) {
		return false
	}
	d, known := c.mirrors.deployments.get(types.NamespacedName{Namespace: key.Namespace, Name: spec.Workload.Name})
	if !known || d == nil {
		return false
	}
	_, held := d.Annotations[api.AnnotationInProgressing]
	return !held && workload.TemplateRevision(d.Spec.Template) == m.CanaryRevision
}

// IdleSince is since when the watches show no release of a Rollout. ok is false while there is one, and before the first.
func (c *Client) IdleSince(key types.NamespacedName) (since time.Time, ok bool) {
	r, known := c.mirrors.rollouts.get(key)
	if !known || r == nil {
		return time.Time{}, false
	}
	m := machineOf(r)
	if m.State != string(rollout.StateIdle) || m.Epoch == 0 || m.Since == nil {
		return time.Time{}, false
	}
	return m.Since.Time, true
}
