package controlplane

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
)

// watcher is a client of one resource, dynamic or typed.
type watcher[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// Watch is the Watch of a client that goes on where it was when the connection is lost, as it is on a busy machine. Without a resource version in o, it
// begins with an addition of each object that exists.
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
