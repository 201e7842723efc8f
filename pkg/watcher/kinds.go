package watcher

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/script"
)

// Discovery follows a CustomResourceDefinition by a moment, and no event says when. So the watcher asks again for a
// while, as long as a Rollout names a kind that is not served.
const (
	firstFind = 50 * time.Millisecond
	lastFind  = 5 * time.Second
	// lookTime bounds one request to discovery.
	lookTime = 5 * time.Second
)

// kindWatch is the watch of one kind that Rollouts name. It is synced once it has read its first list and then hinted
// all Rollouts that depend on the kind.
type kindWatch struct {
	reads  []script.Reads // the ways to name objects, for the facts
	synced cache.InformerSynced
	stop   func()
}

// requestFindKinds asks findKinds to look for the kinds that Rollouts name. It never blocks.
func (w *Watcher) requestFindKinds() {
	select {
	case w.findRequests <- struct{}{}:
	default:
	}
}

// kindsChanged wakes the Rollouts that name installable kinds, and looks for the unserved kinds again.
func (w *Watcher) kindsChanged() {
	w.hintRolloutsMatching(func(d *dependencies) bool { return d.namesInstallableKind() })
	w.hintRoutingsMatching(func(d *dependencies) bool { return d.namesInstallableKind() })
	w.requestFindKinds()
}

// findKinds starts a watch for each kind that Rollouts name once the API server serves it, until ctx is done.
func (w *Watcher) findKinds(ctx context.Context) {
	defer w.stopKinds()
	timer := time.NewTimer(0)
	defer timer.Stop()
	timer.Stop()
	wait := lastFind
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.findRequests:
			wait = firstFind
		case <-timer.C:
			wait *= 2
		}
		if !w.watchKinds(ctx) && wait <= lastFind {
			timer.Reset(wait)
		}
	}
}

// watchKinds adapts the watches to the named and served kinds. It reports whether every named kind is being watched.
func (w *Watcher) watchKinds(ctx context.Context) (all bool) {
	all = true
	reads := w.currentScripts().reads()
	named := w.index.namedKinds()
	maps.Copy(named, w.routings.namedKinds())
	for kind := range w.currentScripts().withRelated(slices.Collect(maps.Keys(named))) {
		named[kind] = true
	}
	maps.Copy(named, w.unnamedKinds(named))
	for kind := range w.watches {
		named[kind] = true
	}
	for kind := range named {
		resource, err := w.resourceOf(ctx, kind.GroupVersionKind)
		switch watch := w.watches[kind]; {
		case err != nil:
			w.Logger.Debug("a kind that Rollouts name cannot be looked up", "kind", kind.String(), "error", err)
			all = false
		case resource == "" && watch != nil:
			watch.stop()
			w.setWatch(kind, nil)
			all = false
		case resource == "":
			all = false
		case watch == nil:
			w.watchKind(ctx, kind, kind.GroupVersion().WithResource(resource), reads)
		case kind.names() && !slices.Equal(watch.reads, reads): // users have changed the kinds that scripts read
			watch.stop()
			w.setWatch(kind, nil)
			w.watchKind(ctx, kind, kind.GroupVersion().WithResource(resource), reads)
		}
	}
	w.kindsFound.Store(true)
	return all
}

// resourceOf returns the name of the resource that serves a kind, "" if the kind is not served.
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

func (w *Watcher) watchKind(ctx context.Context, kind namedKind, resource schema.GroupVersionResource, reads []script.Reads) {
	ctx, cancel := context.WithCancel(ctx)
	synced, wait, err := w.kindSource(kind, resource, reads).startInformer(ctx, w.Logger)
	if err != nil {
		cancel()
		w.Logger.Error("watch a kind that Rollouts name", "kind", kind.String(), "error", err)
		return
	}
	var told atomic.Bool
	var telling sync.WaitGroup
	telling.Go(func() {
		// No event reports an object that is deleted before the first list is read. A Rollout that was hinted by then
		// may have had it created.
		if cache.WaitForCacheSync(ctx.Done(), synced) {
			w.kindChanged(kind)
			told.Store(true)
		}
	})
	w.setWatch(kind, &kindWatch{reads: reads, synced: told.Load, stop: func() { cancel(); wait(); telling.Wait() }})
	w.kindChanged(kind)
}

// kindChanged wakes all Rollouts that name a kind, or that route with a kind which depends on it.
func (w *Watcher) kindChanged(kind namedKind) {
	scripts := w.currentScripts()
	names := func(d *dependencies) bool {
		for of := range scripts.withRelated(d.refs) {
			if of == kind {
				return true
			}
		}
		return false
	}
	w.hintRolloutsMatching(names)
	w.hintRoutingsMatching(names)
}

// kindSource returns the source of the objects of a kind, for the role in which it is named. reads are the ways in
// which objects name others.
func (w *Watcher) kindSource(kind namedKind, resource schema.GroupVersionResource, reads []script.Reads) source {
	objects, name := listWatch(w.objects.Resource(resource), nil), resource.String()
	switch {
	case kind.workload:
		return sourceOf(name, objects, &unstructured.Unstructured{}, workloadFacts, w.workloadChanged(kind.GroupKind()))
	case kind.Group == api.GroupSluice: // the generation covers every change
		return sourceOf(name, listWatch(w.metadata.Resource(resource), nil), &metav1.PartialObjectMetadata{}, presenceFacts, w.templateChanged(kind.GroupKind()))
	case kind.child:
		ours := listWatch(w.objects.Resource(resource), func(o *metav1.ListOptions) { o.LabelSelector = api.LabelRolloutUID })
		return sourceOf(name, ours, &unstructured.Unstructured{}, routeFacts, w.referencedChanged(kind.GroupKind()))
	case kind.backend:
		return sourceOf(name, listWatch(w.metadata.Resource(resource), nil), &metav1.PartialObjectMetadata{}, presenceFacts, w.referencedChanged(serviceKind))
	case kind.policy:
		return sourceOf(name, objects, &unstructured.Unstructured{}, policyFacts, w.referencedChanged(kind.GroupKind()))
	case kind.supports:
		return sourceOf(name, objects, &unstructured.Unstructured{}, gatewayFacts, func(*fact, bool, urgency) { w.kindChanged(kind) })
	case kind.read.Field != "":
		return sourceOf(name, objects, &unstructured.Unstructured{}, naming(reads, generationFacts), w.readChanged(kind.GroupKind()))
	}
	return sourceOf(name, objects, &unstructured.Unstructured{}, naming(reads, routeFacts), w.routeChanged(kind.GroupKind()))
}

// setWatch is called by one goroutine only, which also reads watches without the lock.
func (w *Watcher) setWatch(kind namedKind, watch *kindWatch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if watch == nil {
		delete(w.watches, kind)
	} else {
		w.watches[kind] = watch
	}
}

func (w *Watcher) stopKinds() {
	for _, watch := range w.watches {
		watch.stop()
	}
}

func (w *Watcher) hasUnwatched(d *dependencies) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for kind := range w.scripted.withRelated(d.refs) {
		if w.watches[kind] == nil {
			return true
		}
	}
	return false
}

// kindsSynced reports whether the watcher has looked for the named kinds and read their first lists.
func (w *Watcher) kindsSynced() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, watch := range w.watches {
		if !watch.synced() {
			return false
		}
	}
	return w.kindsFound.Load()
}
