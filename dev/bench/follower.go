package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
)

// follower knows the present state of objects. Its methods are safe for concurrent use.
type follower struct {
	watches errgroup.Group
	stop    []context.CancelFunc

	mu      sync.Mutex
	views   map[string]view
	changed chan struct{} // closed at the next change
}

func newFollower() *follower {
	return &follower{views: map[string]view{}, changed: make(chan struct{})}
}

// follow watches the objects of a set in a collection until close.
func (f *follower) follow(ctx context.Context, c *client, path, set string) {
	ctx, stop := context.WithCancel(ctx)
	f.stop = append(f.stop, stop)
	f.watches.Go(func() error { return c.watch(ctx, path, label+"="+set, f.see) })
}

func (f *follower) see(e change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.views[e.Object.key()] = e.Object
	close(f.changed)
	f.changed = make(chan struct{})
}

// await returns the first state of an object that a measurement waits for, for stuckAfter at most.
func (f *follower) await(ctx context.Context, name rolloutName, what string, there func(view) bool) (view, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stuckAfter, errors.New("it takes too long"))
	defer cancel()
	for {
		f.mu.Lock()
		v, known := f.views[name.key()]
		changed := f.changed
		f.mu.Unlock()
		if known && there(v) {
			return v, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return v, fmt.Errorf("wait until %s: %s: %w; it is %s %s: %s", name.key(), what, context.Cause(ctx), v.Status.Phase, v.Status.Reason, v.Status.Message)
		}
	}
}

func (f *follower) close() error {
	for _, stop := range f.stop {
		stop()
	}
	if err := f.watches.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
