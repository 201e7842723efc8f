package crash

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// change is one write to an object, by any user.
type change struct {
	// version orders all changes of a cluster.
	version  int64
	resource string
	kind     watch.EventType
	object   *unstructured.Unstructured
}

func (c change) key() string { return c.resource + "/" + c.object.GetName() }

// objects are the objects of a namespace at a moment, by resource and name.
type objects map[string]*unstructured.Unstructured

// history has all changes of one namespace.
type history struct {
	mu      sync.Mutex
	changes []change
	live    objects
	moved   chan struct{}
}

func (h *history) add(c change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes = append(h.changes, c)
	if c.kind == watch.Deleted {
		delete(h.live, c.key())
	} else {
		h.live[c.key()] = c.object
	}
	close(h.moved)
	h.moved = make(chan struct{})
}

// await waits until the namespace has the wanted state, as long as anything moves in it.
func (h *history) await(ctx context.Context, what string, reached func(objects) bool) error {
	for {
		h.mu.Lock()
		there, moved := reached(h.live), h.moved
		h.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-moved:
		case <-time.After(*patience):
			return fmt.Errorf("waited for %s, and nothing moved for %s; %s", what, *patience, h.tell())
		case <-ctx.Done():
			return fmt.Errorf("waited for %s: %w; %s", what, ctx.Err(), h.tell())
		}
	}
}

// tell describes the state of a release.
func (h *history) tell() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.live["rollouts/"+app]
	if r == nil {
		return "there is no Rollout"
	}
	state, _, _ := unstructured.NestedString(r.Object, "status", "sluice", "state")
	message, _, _ := unstructured.NestedString(r.Object, "status", "message")
	step, _, _ := unstructured.NestedInt64(r.Object, "status", "sluice", "step")
	return fmt.Sprintf("the release is in %s of step %d: %s", state, step, message)
}

// now returns the objects that exist.
func (h *history) now() objects {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.live)
}

// ordered returns the changes so far, in the order in which they took effect.
func (h *history) ordered() []change {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := slices.Clone(h.changes)
	slices.SortStableFunc(list, func(a, b change) int { return int(a.version - b.version) })
	return list
}

// witness watches all namespaces as the administrator. So it sees every state of every object, regardless of the
// writer.
type witness struct {
	mu         sync.Mutex
	namespaces map[string]*history
}

// of returns the history of a namespace, from its beginning if it does not exist yet.
func (w *witness) of(namespace string) *history {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.namespaces[namespace]
	if h == nil {
		h = &history{live: objects{}, moved: make(chan struct{})}
		w.namespaces[namespace] = h
	}
	return h
}

func (w *witness) forget(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.namespaces[namespace] = &history{live: objects{}, moved: make(chan struct{})}
}

func watched() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		api.RolloutResource(), beside.Resource(), world.Daemons.Resource(), world.Ordered.Resource(), world.Cloned.Resource(),
		{Group: "apps", Version: "v1", Resource: "replicasets"}, {Version: "v1", Resource: "services"}, {Version: "v1", Resource: "pods"},
		{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
		{Group: "networking.istio.io", Version: "v1", Resource: "virtualservices"}, world.DestinationRuleResource(), world.IngressResource(),
	}
}

// startWitness watches until ctx is done. Then wait returns.
func startWitness(ctx context.Context, client dynamic.Interface, resources []schema.GroupVersionResource) (w *witness, wait func(), err error) {
	w = &witness{namespaces: map[string]*history{}}
	var running sync.WaitGroup
	for _, resource := range resources {
		all := client.Resource(resource)
		list, err := all.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, nil, fmt.Errorf("list %s: %w", resource.Resource, err)
		}
		events, err := controlplane.Watch(ctx, all, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
		if err != nil {
			return nil, nil, fmt.Errorf("watch %s: %w", resource.Resource, err)
		}
		running.Go(func() {
			for e := range events.ResultChan() {
				w.take(resource.Resource, e)
			}
		})
	}
	return w, running.Wait, nil
}

func (w *witness) take(resource string, e watch.Event) {
	u, ok := e.Object.(*unstructured.Unstructured)
	if !ok || e.Type == watch.Bookmark || e.Type == watch.Error {
		return
	}
	version, err := strconv.ParseInt(u.GetResourceVersion(), 10, 64)
	if err != nil {
		return
	}
	u.SetManagedFields(nil)
	w.of(u.GetNamespace()).add(change{version, resource, e.Type, u})
}
