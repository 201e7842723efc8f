package metric

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// namespaceLimits bound how many queries of a namespace run at once, first come, first served, so that nobody's slow queries keep others from asking.
type namespaceLimits struct {
	each int64

	mu    sync.Mutex
	known map[string]*namespaceLimit
}

type namespaceLimit struct {
	free *semaphore.Weighted
	// users are those that wait and those that run.
	users int
}

// acquireSlot waits for a turn; give must be called once, unless there is an error, which is that of ctx.
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
