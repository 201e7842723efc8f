package watcher

import (
	"fmt"
	"testing"
	"time"
)

// A release has a wake-up time, and its timer was lost with NATS.
func TestAnOverdueWakeUpIsSwept(t *testing.T) {
	t.Parallel()
	s := newScene(t, withEverything)
	s.wakes("web", "the start of the watcher", func() {})
	at := time.Now().Truncate(time.Second).Add(3 * time.Second)
	s.wakes("web", "a word about its timer that is not an executor's", func() {
		s.patch("rollout/web", fmt.Sprintf(`{"status":{"sluice":{"wakeAt":%q}}}`, at.UTC().Format("2006-01-02T15:04:05.000000Z07:00")), "--subresource=status")
	})
	// The watcher looks at all namespaces: what other tests do may wake this Rollout before.
	for time.Since(at) < overdue {
		s.wakes("web", "its overdue timer", func() {})
	}
}

// The hints in the deleted stream are lost, and only the watcher can send them again.
func TestAStreamThatWasMadeAgainGetsAllHintsAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t, withEverything)
	s.wakes("web", "the start of the watcher", func() {})
	s.wakes("web", "the loss of the stream", func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stream = s.stream.Add(time.Hour)
	})
}
