package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
)

// watcher is a client of one resource, dynamic or typed.
type watcher[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// Watch is the Watch of a client, but it reconnects when a busy machine loses the connection, and misses no event.
// Without a resource version in o, it begins with an event of type Added for each object that exists.
func Watch[L runtime.Object](ctx context.Context, client watcher[L], o metav1.ListOptions) (watch.Interface, error) {
	var first []watch.Event
	from := o.ResourceVersion
	if from == "" {
		list, err := client.List(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("list what is to be watched: %w", err)
		}
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			first = append(first, watch.Event{Type: watch.Added, Object: item})
			return nil
		}); err != nil {
			return nil, fmt.Errorf("read what is to be watched: %w", err)
		}
		of, err := meta.ListAccessor(list)
		if err != nil {
			return nil, fmt.Errorf("read what is to be watched: %w", err)
		}
		from = of.GetResourceVersion()
	}
	rest, err := toolswatch.NewRetryWatcherWithContext(ctx, from, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, again metav1.ListOptions) (watch.Interface, error) {
			again.FieldSelector, again.LabelSelector = o.FieldSelector, o.LabelSelector
			return client.Watch(ctx, again)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	events := make(chan watch.Event)
	all := watch.NewProxyWatcher(events)
	send := func(e watch.Event) bool {
		select {
		case events <- e:
			return true
		case <-all.StopChan():
		case <-ctx.Done():
		}
		return false
	}
	go func() {
		defer close(events)
		defer rest.Stop()
		for _, e := range first {
			if !send(e) {
				return
			}
		}
		for {
			select {
			case e, open := <-rest.ResultChan():
				if !open || !send(e) {
					return
				}
			case <-all.StopChan():
				return
			}
		}
	}()
	return all, nil
}

// AwaitObject returns the object of a name once reached accepts it. reached gets nil while the object does not exist.
// The error is an error of the API server, or reports that ctx has ended.
func AwaitObject(ctx context.Context, client dynamic.ResourceInterface, name string, reached func(*unstructured.Unstructured) bool) (*unstructured.Unstructured, error) {
	only := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
	list, err := client.List(ctx, only)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", name, err)
	}
	var now *unstructured.Unstructured
	if len(list.Items) > 0 {
		now = &list.Items[0]
	}
	if reached(now) {
		return now, nil
	}
	only.ResourceVersion = list.GetResourceVersion()
	events, err := Watch(ctx, client, only)
	if err != nil {
		return nil, err
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		now, _ = e.Object.(*unstructured.Unstructured)
		if e.Type == watch.Deleted {
			now = nil
		}
		if reached(now) {
			return now, nil
		}
	}
	return nil, cmp.Or(ctx.Err(), errors.New("the watch ended"))
}
