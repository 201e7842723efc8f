package watcher

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/sluice/pkg/api"
)

// source watches the objects of one resource and reports those whose facts changed.
type source struct {
	resource  string
	objects   *cache.ListWatch
	example   runtime.Object
	transform cache.TransformFunc
	// optional is true if not every API server serves the resource.
	optional bool
	// changed is called with the current fact, or with the last fact of a deleted object.
	changed func(f *fact, gone bool, u urgency)
}

// apiObject is a pointer to an object of the API.
type apiObject interface {
	metav1.Object
	runtime.Object
}

// sourceOf returns a source of objects of the type of example.
func sourceOf[T apiObject](resource string, objects *cache.ListWatch, example T, project func(T) facts, changed func(*fact, bool, urgency)) source {
	return source{resource: resource, objects: objects, example: example, transform: factTransform(project), changed: changed}
}

// startInformer watches until ctx is done. synced reports whether every object of the first list has been reported.
// Failing lists and watches are retried with a growing delay.
func (s source) startInformer(ctx context.Context, log *slog.Logger) (synced cache.InformerSynced, done func(), err error) {
	informer := cache.NewSharedIndexInformer(s.objects, s.example, 0, cache.Indexers{})
	if err := informer.SetTransform(s.transform); err != nil {
		return nil, nil, fmt.Errorf("watch %s: %w", s.resource, err)
	}
	warned := &rateLimit{every: time.Minute}
	if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if !(s.optional && api.Unserved(err)) && warned.allowNow() {
			log.Warn("cannot watch; releases that wait for these objects go on at the next resync only", "resource", s.resource, "error", err)
		}
	}); err != nil {
		return nil, nil, fmt.Errorf("watch %s: %w", s.resource, err)
	}
	told, err := informer.AddEventHandler(s.eventHandler())
	if err != nil {
		return nil, nil, fmt.Errorf("watch %s: %w", s.resource, err)
	}
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	return told.HasSynced, running.Wait, nil
}

func (s source) eventHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if f, ok := obj.(*fact); ok {
				s.changed(f, false, f.urgencySince(nil))
			}
		},
		UpdateFunc: func(before, after any) {
			old, ok1 := before.(*fact)
			f, ok2 := after.(*fact)
			// The index follows each commit of a Rollout.
			if ok1 && ok2 && (f.urgencySince(old) > never || f.rollout != nil) {
				s.changed(f, false, f.urgencySince(old))
			}
		},
		DeleteFunc: func(obj any) {
			if tomb, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tomb.Obj
			}
			if f, ok := obj.(*fact); ok {
				s.changed(f, true, atOnce)
			}
		},
	}
}

// rateLimit allows a warning at most once per interval.
type rateLimit struct {
	every time.Duration
	mu    sync.Mutex
	last  time.Time
}

func (o *rateLimit) allowNow() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.last) < o.every {
		return false
	}
	o.last = time.Now()
	return true
}
