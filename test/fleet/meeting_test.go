package fleet

import (
	"sync"
	"testing"
)

// meeting is a moment that several stories reach together, such as the loss of a cluster. The story that arrives last does it, and then all go on.
type meeting struct {
	do      func()
	mu      sync.Mutex
	missing map[testing.TB]bool
	reached chan struct{}
}

// acts are the meetings of stories that run in parallel, in their order.
type acts []*meeting

// newActs returns meetings, at each of which something is done.
func newActs(do ...func()) acts {
	var list acts
	for _, f := range do {
		list = append(list, &meeting{do: f, missing: map[testing.TB]bool{}, reached: make(chan struct{})})
	}
	return list
}

// play runs stories in parallel, as far as -run selects them. A story that fails is missed no longer.
func (a acts) play(t *testing.T, stories map[string]func(*story, acts)) {
	for sentence, tell := range stories {
		t.Run(sentence, func(t *testing.T) {
			for _, m := range a { // before the first one arrives: Parallel waits until all are expected
				m.expect(t)
			}
			t.Cleanup(func() {
				for _, m := range a {
					m.arrive(t)
				}
			})
			t.Parallel()
			tell(newStory(t), a)
		})
	}
}

func (m *meeting) expect(t testing.TB) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.missing[t] = true
}

// arrive takes a story off those that are missed.
func (m *meeting) arrive(t testing.TB) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.missing[t] {
		return
	}
	delete(m.missing, t)
	if len(m.missing) == 0 {
		m.do()
		close(m.reached)
	}
}

// attend waits until all other stories have come as far, and what the meeting is for is done.
func (s *story) attend(m *meeting) {
	m.arrive(s.t)
	select {
	case <-m.reached:
	case <-s.t.Context().Done():
	}
}
