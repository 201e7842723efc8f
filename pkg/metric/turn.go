package metric

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// turns bound how many queries of a namespace run at once, first come, first served, so that nobody's slow queries keep others from asking.
type turns struct {
	each int64

	mu    sync.Mutex
	known map[string]*turn
}

type turn struct {
	free *semaphore.Weighted
	// users are those that wait and those that run.
	users int
}

// take waits for a turn; give must be called once, unless there is an error, which is that of ctx.
func (t *turns) take(ctx context.Context, namespace string) (give func(), err error) {
	mine := t.join(namespace)
	if err := mine.free.Acquire(ctx, 1); err != nil {
		t.leave(namespace, mine)
		return nil, err
	}
	return func() {
		mine.free.Release(1)
		t.leave(namespace, mine)
	}, nil
}

func (t *turns) join(namespace string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine, ok := t.known[namespace]
	if !ok {
		mine = &turn{free: semaphore.NewWeighted(t.each)}
		t.known[namespace] = mine
	}
	mine.users++
	return mine
}

func (t *turns) leave(namespace string, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine.users--
	if mine.users == 0 {
		delete(t.known, namespace)
	}
}
