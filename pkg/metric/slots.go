package metric

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// namespaceLimits bound how many queries of a namespace run at once, first come, first served. So slow queries of one namespace do not delay the
// queries of others.
type namespaceLimits struct {
	each int64

	mu    sync.Mutex
	known map[string]*namespaceLimit
}

type namespaceLimit struct {
	free *semaphore.Weighted
	// users counts the waiting and the running queries.
	users int
}

// acquireSlot waits for a free slot of the namespace. The caller must call give once. The only error is the error of ctx; give is nil then.
func (t *namespaceLimits) acquireSlot(ctx context.Context, namespace string) (give func(), err error) {
	mine := t.joinNamespace(namespace)
	if err := mine.free.Acquire(ctx, 1); err != nil {
		t.leaveNamespace(namespace, mine)
		return nil, err
	}
	return func() {
		mine.free.Release(1)
		t.leaveNamespace(namespace, mine)
	}, nil
}

func (t *namespaceLimits) joinNamespace(namespace string) *namespaceLimit {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine, ok := t.known[namespace]
	if !ok {
		mine = &namespaceLimit{free: semaphore.NewWeighted(t.each)}
		t.known[namespace] = mine
	}
	mine.users++
	return mine
}

func (t *namespaceLimits) leaveNamespace(namespace string, mine *namespaceLimit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine.users--
	if mine.users == 0 {
		delete(t.known, namespace)
	}
}
