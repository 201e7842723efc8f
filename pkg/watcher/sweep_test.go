package watcher

import (
	"fmt"
	"testing"
	"time"
)

// A release asked for a wake-up, and its timer was lost.
func TestAnOverdueWakeUpIsSwept(t *testing.T) {
	t.Parallel()
	s := newScene(t, withEverything)
	s.wakes("web", "the start of the watcher", func() {})
	at := time.Now().Truncate(time.Second).Add(3 * time.Second)
	s.wakes("web", "a word about its timer that is not an executor's", func() {
		s.patch("rollout/web", fmt.Sprintf(`{"status":{"sluice":{"wakeAt":%q}}}`, at.UTC().Format("2006-01-02T15:04:05.000000Z07:00")), "--subresource=status")
	})
	// The watcher watches all namespaces, so other tests may wake this Rollout before.
	for time.Since(at) < overdue {
		s.wakes("web", "its overdue timer", func() {})
	}
}

// Hints in the old stream are lost, and no other process knows of them.
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
