package watcher

import (
	"context"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/sluice/pkg/api"
)

// Discovery follows a CustomResourceDefinition by a moment, and no event says when. So it is asked again for a while, as long as
// a Rollout names a kind that is not served.
const (
	firstLook = 50 * time.Millisecond
	lastLook  = 5 * time.Second
	// lookTime bounds one question.
	lookTime = 5 * time.Second
)

// routeWatch is the watch of one kind that may not be installed.
type routeWatch struct {
	synced cache.InformerSynced
	stop   func()
}

// look has the kinds that Rollouts name looked for. It never blocks.
func (w *Watcher) look() {
	select {
	case w.definitions <- struct{}{}:
	default:
	}
}

// kindsChanged wakes who names kinds that may not be installed, and has those that are not served looked for again.
func (w *Watcher) kindsChanged() {
	w.hintMatching(func(d *dependencies) bool { return len(d.refs) > 0 })
	w.look()
}

// findKinds watches the kinds that Rollouts name as they come to be served, until ctx is done.
func (w *Watcher) findKinds(ctx context.Context) {
	defer w.stopRoutes()
	timer := time.NewTimer(0)
	defer timer.Stop()
	timer.Stop()
	wait := lastLook
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.definitions:
			wait = firstLook
		case <-timer.C:
			wait *= 2
		}
		if !w.watchRoutes(ctx) && wait <= lastLook {
			timer.Reset(wait)
		}
	}
}

// watchRoutes brings the watches in line with what is named and served. It reports whether everything named is being watched.
func (w *Watcher) watchRoutes(ctx context.Context) (all bool) {
	all = true
	named := w.index.routeKinds()
	for gvk := range w.routes {
		named[gvk] = true
	}
	for gvk := range named {
		resource, err := w.resourceOf(ctx, gvk)
		switch watch := w.routes[gvk]; {
		case err != nil:
			w.Logger.Debug("a kind that Rollouts name cannot be looked up", "kind", gvk.String(), "error", err)
			all = false
		case resource == "" && watch != nil:
			watch.stop()
			w.setRoute(gvk, nil)
			all = false
		case resource == "":
			all = false
		case watch == nil:
			w.watchRoute(ctx, gvk, resource)
		}
	}
	w.looked.Store(true)
	return all
}

// resourceOf is the name of the resource that a kind is served as, "" when it is not served.
func (w *Watcher) resourceOf(ctx context.Context, gvk schema.GroupVersionKind) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	list, err := w.resources.ServerResourcesForGroupVersionWithContext(ctx, gvk.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for _, r := range list.APIResources {
		if r.Kind == gvk.Kind && !strings.Contains(r.Name, "/") {
			return r.Name, nil
		}
	}
	return "", nil
}

func (w *Watcher) watchRoute(ctx context.Context, gvk schema.GroupVersionKind, resource string) {
	kind := gvk.GroupKind()
	gvr := gvk.GroupVersion().WithResource(resource)
	s := sourceOf(gvr.String(), listWatch(w.objects.Resource(gvr), nil), &unstructured.Unstructured{}, routeFacts, w.named(kind))
	if gvk.Group == api.GroupSluice { // whose generation tells all
		s = sourceOf(gvr.String(), listWatch(w.metadata.Resource(gvr), nil), &metav1.PartialObjectMetadata{}, presenceFacts, w.templateChanged(kind))
	}
	ctx, cancel := context.WithCancel(ctx)
	synced, wait, err := s.run(ctx, w.Logger)
	if err != nil {
		cancel()
		w.Logger.Error("watch a kind that Rollouts name", "kind", gvk.String(), "error", err)
		return
	}
	w.setRoute(gvk, &routeWatch{synced: synced, stop: func() { cancel(); wait() }})
	w.hintMatching(func(d *dependencies) bool { return slices.Contains(d.refs, gvk) })
}

// setRoute is called by the one goroutine that also reads routes without the lock.
func (w *Watcher) setRoute(gvk schema.GroupVersionKind, watch *routeWatch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if watch == nil {
		delete(w.routes, gvk)
	} else {
		w.routes[gvk] = watch
	}
}

func (w *Watcher) stopRoutes() {
	for _, watch := range w.routes {
		watch.stop()
	}
}

func (w *Watcher) unwatched(d *dependencies) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, gvk := range d.refs {
		if w.routes[gvk] == nil {
			return true
		}
	}
	return false
}

// routesSynced reports whether the kinds that Rollouts name were looked for and their first lists read.
func (w *Watcher) routesSynced() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, watch := range w.routes {
		if !watch.synced() {
			return false
		}
	}
	return w.looked.Load()
}
