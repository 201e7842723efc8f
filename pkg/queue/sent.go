package queue

import "sync"

// maxSent bounds the memory of published events. Beyond it the process forgets everything and publishes some events twice.
const maxSent = 200_000

// Sent remembers the last event that this process has published about each object, only to save the server repeats; the ids of the events make repeats
// harmless. Its methods are safe for concurrent use. The zero value is ready for use.
type Sent[T any] struct {
	mu   sync.Mutex
	last map[string]T
}

// Get returns what [Sent.Put] has stored last about an object.
func (s *Sent[T]) Get(object string) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[object]
}

// Put stores which event was published last.
func (s *Sent[T]) Put(object string, last T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || len(s.last) > maxSent {
		s.last = map[string]T{}
	}
	s.last[object] = last
}
