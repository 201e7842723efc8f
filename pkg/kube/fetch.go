package kube

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/kube/cache"
)

// readSource is the source that an observation reads from.
type readSource int

const (
	// fromWatch asks the overlays, and the API server if they cannot tell.
	fromWatch readSource = iota
	// fromServer asks the API server.
	fromServer
	// fromMemory asks the overlays only.
	fromMemory
)

// errNotCached says that the overlays cannot tell.
var errNotCached = errors.New("it is not watched")

// readCounts count the reads of observations.
type readCounts struct{ watched, live atomic.Int64 }

// ReadCounts returns how many reads the overlays have answered so far, and how many went to the API server.
func (c *Client) ReadCounts() (watched, live int64) {
	return c.readCounts.watched.Load(), c.readCounts.live.Load()
}

// objectQuery asks for one object; the answer is nil if it does not exist.
type objectQuery[T cache.Object] struct {
	overlay *cache.Overlay[T]
	name    types.NamespacedName
	// expected says that the object must exist. If the overlay does not have it, it may be new, so the executor asks
	// the API server.
	expected bool
	// confirmAbsence says that an answer without the object counts only if the watch agrees.
	confirmAbsence bool
	// isComplete reports whether the overlay has all of an object; nil if it has all of every object.
	isComplete func(T) bool
	call       func(context.Context) (T, error)
	// onAnswer is called with each answer of the API server.
	onAnswer func()
}

// acceptsCached reports whether the object from the overlay answers the query.
func (q objectQuery[T]) acceptsCached(found T, asked readSource) bool {
	var none T
	if found == none {
		return !q.expected || asked == fromMemory
	}
	return q.isComplete == nil || q.isComplete(found)
}

func fetchObject[T cache.Object](ctx context.Context, o *observation, q objectQuery[T]) (found T, err error) {
	var none T
	if o.source != fromServer {
		if found, known := q.overlay.GetObject(q.name); known && q.acceptsCached(found, o.source) {
			o.client.readCounts.watched.Add(1)
			return found, nil
		}
		if o.source == fromMemory {
			return none, errNotCached
		}
	}
	o.client.readCounts.live.Add(1)
	found, err = q.call(ctx)
	switch {
	case apiclient.IsNotFound(err) && q.confirmAbsence && q.overlay.HasObject(q.name):
		return none, fmt.Errorf("%w: %v", apiclient.ErrUndecided, err)
	case apiclient.IsNotFound(err):
		q.overlay.MarkAbsent(q.name)
		q.onAnswer()
		return none, nil
	case apiclient.IsForbidden(err), api.Unserved(err): // another read would get the same answer
		q.onAnswer()
		return none, err
	case err != nil:
		return none, err
	}
	q.overlay.StoreAnswer(found)
	q.onAnswer()
	return found, nil
}

// listByKey returns the objects that have one of the keys. since is the version of a list that the API server answered.
func listByKey[T cache.Object](
	ctx context.Context, o *observation, answered func(), m *cache.Overlay[T], keys []string, call func(context.Context) (found []T, since string, err error),
) (found []T, since string, err error) {
	if o.source != fromServer {
		known := true
		for _, key := range keys {
			some, ok := m.ByKey(key)
			found, known = append(found, some...), known && ok
		}
		if known {
			o.client.readCounts.watched.Add(1)
			return found, "", nil
		}
		if o.source == fromMemory {
			return nil, "", errNotCached
		}
	}
	o.client.readCounts.live.Add(1)
	if found, since, err = call(ctx); err == nil || apiclient.IsForbidden(err) {
		answered()
	}
	return found, since, err
}

// nilIfNotFound returns nil without an error for an object that does not exist.
func nilIfNotFound[T any](object *T, err error) (*T, error) {
	if apiclient.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return object, nil
}
