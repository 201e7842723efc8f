package fleet

import (
	"context"
	"sync"
	"time"
)

// applyEvery is how often a GitOps tool of the tests applies its manifests.
const applyEvery = 500 * time.Millisecond

// breakEvery is how often a bad line breaks.
const breakEvery = 1500 * time.Millisecond

// applyAgain applies a version in a cluster again and again, as a GitOps tool does, until the caller calls stop.
func (s *story) applyAgain(version, cluster string) (stop func()) {
	s.t.Helper()
	return s.again(applyEvery, func(ctx context.Context) {
		// A conflict with an executor is what a tool meets too: it applies again later.
		_, _ = s.members[cluster].KubectlStdin(ctx, s.manifests(version), "-n", s.namespace, "apply", "-f", "-")
	})
}

// breakAgain breaks the connections of a cluster to the hub again and again, until the caller calls stop.
func (s *story) breakAgain(cluster string) (stop func()) {
	s.t.Helper()
	p := s.members[cluster].proxy
	return s.again(breakEvery, func(context.Context) { p.CutOff(); p.Restore() })
}

// again does something at an interval, until the caller calls stop.
func (s *story) again(every time.Duration, do func(context.Context)) (stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		for ctx.Err() == nil {
			do(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(every):
			}
		}
	})
	stop = sync.OnceFunc(func() { cancel(); work.Wait() })
	s.t.Cleanup(stop)
	return stop
}
