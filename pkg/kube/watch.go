package kube

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/cache"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

// informers are the overlays of a client. No watch runs before [Client.Start]: until then the client reads everything
// live.
type informers struct {
	rollouts       *cache.Overlay[*api.Rollout]
	deployments    *cache.Overlay[*appsv1.Deployment]
	replicaSets    *cache.Overlay[*appsv1.ReplicaSet]
	services       *cache.Overlay[*corev1.Service]
	endpointSlices *cache.Overlay[*discoveryv1.EndpointSlice]
	scripts        *cache.Overlay[*corev1.ConfigMap] // nil if the client reads no ConfigMap
	// templates is watched only after a Rollout names a template, because a cluster may not serve templates.
	templates          *cache.Overlay[*api.AnalysisTemplate]
	clusterTemplates   *cache.Overlay[*api.ClusterAnalysisTemplate]
	templatesRequested chan struct{}
	templatesStarted   atomic.Bool

	// requestedKinds has the kinds to start watching.
	requestedKinds chan watchedKind
	mu             sync.Mutex
	kinds          map[watchedKind]*cache.Overlay[*unstructured.Unstructured]
}

// watchedKind is a kind that the client watches once a Rollout names it. It is a kind of gateway objects, or of
// workloads other than Deployments.
type watchedKind struct {
	schema.GroupVersionResource
	isWorkload bool
}

func (c *Client) newInformers() (m *informers, err error) {
	w, changed := c.watchClients, c.changes.notifyOf
	m = &informers{templatesRequested: make(chan struct{}, 1), requestedKinds: make(chan watchedKind, 64), kinds: map[watchedKind]*cache.Overlay[*unstructured.Unstructured]{}}
	if m.rollouts, err = cache.NewRollouts(w.rollouts, changed(rolloutItem)); err != nil {
		return nil, err
	}
	if m.deployments, err = cache.NewDeployments(w.apps, changed(deploymentItem)); err != nil {
		return nil, err
	}
	if m.replicaSets, err = cache.NewReplicaSets(w.apps, func(set metav1.Object) { c.changes.notifyRollouts(trackedItem{replicaSetsItem, cache.OwnerKey(set)}) }); err != nil {
		return nil, err
	}
	if m.services, err = cache.NewServices(w.core, changed(serviceItem)); err != nil {
		return nil, err
	}
	if m.endpointSlices, err = cache.NewEndpointSlices(w.endpoints, func(slice metav1.Object) {
		c.changes.notifyRollouts(trackedItem{endpointsItem, cache.ServiceKey(slice)})
	}); err != nil {
		return nil, err
	}
	if m.templates, err = cache.NewTemplates(w.templates, changed(templateItem)); err != nil {
		return nil, err
	}
	if m.clusterTemplates, err = cache.NewClusterTemplates(w.templates, changed(clusterTemplateItem)); err != nil {
		return nil, err
	}
	if name := c.opts.ScriptConfigMap; name.Name != "" {
		m.scripts, err = cache.NewConfigMap(w.core, name, changed(scriptsItem))
	}
	return m, err
}

// Start watches the objects that releases look at, until ctx is done; call it once. Without it, and for resources that
// it may not watch, the client reads everything live. Start calls moved with a Rollout that was passed to
// [Client.TrackAfterRun] when one of its objects has changed since. moved must not block.
func (c *Client) Start(ctx context.Context, moved func(types.NamespacedName)) {
	var running sync.WaitGroup
	defer running.Wait()
	c.changes.startTracking(moved)
	defer c.changes.stopTracking()
	m := c.informers
	startWatch(ctx, &running, c, "rollouts."+api.Group, m.rollouts)
	startWatch(ctx, &running, c, "deployments.apps", m.deployments)
	startWatch(ctx, &running, c, "replicasets.apps", m.replicaSets)
	startWatch(ctx, &running, c, "services", m.services)
	startWatch(ctx, &running, c, "endpointslices.discovery.k8s.io", m.endpointSlices)
	if m.scripts != nil {
		startWatch(ctx, &running, c, "configmaps", m.scripts)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.templatesRequested:
			m.startTemplates(ctx, &running, c)
		case kind := <-m.requestedKinds:
			if found, err := c.addKindOverlay(kind); err == nil {
				startWatch(ctx, &running, c, kind.GroupResource().String(), found)
			} else {
				c.log.Warn("cannot watch a kind; it is read each time", "resource", kind.String(), "error", err)
			}
		}
	}
}

func startWatch[T cache.Object](ctx context.Context, running *sync.WaitGroup, c *Client, resource string, m *cache.Overlay[T]) {
	running.Go(func() {
		m.Run(ctx, func(err error) {
			if ctx.Err() == nil {
				c.log.Warn("cannot watch; until it can be watched it is read each time", "resource", resource, "error", err)
			}
		})
	})
}

// startTemplates watches templates until ctx is done. A second call does nothing.
func (m *informers) startTemplates(ctx context.Context, running *sync.WaitGroup, c *Client) {
	if m.templatesStarted.Swap(true) {
		return
	}
	startWatch(ctx, running, c, "analysistemplates."+api.GroupSluice, m.templates)
	startWatch(ctx, running, c, "clusteranalysistemplates."+api.GroupSluice, m.clusterTemplates)
}

// requestTemplates starts the watches of templates, if the other watches run.
func (m *informers) requestTemplates() {
	if !m.rollouts.IsRunning() || m.templatesStarted.Load() {
		return
	}
	select {
	case m.templatesRequested <- struct{}{}:
	default: // another run has asked already
	}
}

// forKind returns the overlay of a kind. The first request for a kind starts its watch and gets nil.
func (m *informers) forKind(kind watchedKind) *cache.Overlay[*unstructured.Unstructured] {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, asked := m.kinds[kind]
	if !asked && m.rollouts.IsRunning() {
		select {
		case m.requestedKinds <- kind:
			m.kinds[kind] = nil
		default: // too many at once; a later request starts it
		}
	}
	return known
}

func (m *informers) forGateway(gvr schema.GroupVersionResource) *cache.Overlay[*unstructured.Unstructured] {
	return m.forKind(watchedKind{GroupVersionResource: gvr})
}

func (m *informers) forWorkload(gvr schema.GroupVersionResource) *cache.Overlay[*unstructured.Unstructured] {
	return m.forKind(watchedKind{GroupVersionResource: gvr, isWorkload: true})
}

func (c *Client) addKindOverlay(kind watchedKind) (*cache.Overlay[*unstructured.Unstructured], error) {
	newOverlay := cache.NewGatewayObjects
	if kind.isWorkload {
		newOverlay = cache.NewWorkloads
	}
	found, err := newOverlay(c.watchClients.objects, kind.GroupVersionResource, func(o metav1.Object) {
		c.changes.notifyRollouts(itemOf(kind.itemKind(), o))
		c.changes.notifyRollouts(kind.namespaceItem(o.GetNamespace()))
	})
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", kind.Resource, err)
	}
	c.informers.mu.Lock()
	defer c.informers.mu.Unlock()
	c.informers.kinds[kind] = found
	return found, nil
}

// IsWatching reports whether Rollouts are watched now.
func (c *Client) IsWatching() bool { return c.informers.rollouts.IsUsable() }

// syncTimeout bounds how long [Client.WaitForCacheSync] waits.
const syncTimeout = 10 * time.Second

// WaitForCacheSync waits for the first lists, or until a timeout: a list that the client may not read never comes.
func (c *Client) WaitForCacheSync(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	m := c.informers
	m.rollouts.WaitForSync(ctx)
	m.deployments.WaitForSync(ctx)
	m.replicaSets.WaitForSync(ctx)
	m.services.WaitForSync(ctx)
	m.endpointSlices.WaitForSync(ctx)
}

// ListRollouts returns all Rollouts that the watch shows; the caller must not change them. It waits for the first list,
// without a timeout.
func (c *Client) ListRollouts(ctx context.Context) []*api.Rollout {
	c.informers.rollouts.WaitForSync(ctx)
	return c.informers.rollouts.ListWatched()
}

// IsIdle reports whether the watches show nothing to do for a Rollout. That is so if its last release is over, and neither
// the Rollout nor the template of its workload has changed since. It knows Deployments only, and does not call the API
// server.
func (c *Client) IsIdle(key types.NamespacedName) bool {
	r, known := c.informers.rollouts.GetObject(key)
	if !known || r == nil || r.DeletionTimestamp != nil || r.Status.ObservedGeneration != r.Generation {
		return false
	}
	m := sluiceStatusOf(r)
	spec, err := rollout.Parse(r)
	if err != nil || m.State != string(rollout.StateIdle) || !spec.Workload.IsDeployment() {
		return false
	}
	d, known := c.informers.deployments.GetObject(types.NamespacedName{Namespace: key.Namespace, Name: spec.Workload.Name})
	if !known || d == nil {
		return false
	}
	_, held := d.Annotations[api.AnnotationInProgressing]
	return !held && workload.TemplateRevision(d.Spec.Template) == m.CanaryRevision
}

// IdleSince returns the time since when the watches show no release of a Rollout. ok is false while a release is under
// way, and before the first release.
func (c *Client) IdleSince(key types.NamespacedName) (since time.Time, ok bool) {
	r, known := c.informers.rollouts.GetObject(key)
	if !known || r == nil {
		return time.Time{}, false
	}
	m := sluiceStatusOf(r)
	if m.State != string(rollout.StateIdle) || m.Epoch == 0 || m.Since == nil {
		return time.Time{}, false
	}
	return m.Since.Time, true
}
