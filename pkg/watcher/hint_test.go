package watcher

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// What wakes only soon is put together for a moment, and is told in any case: no other change may follow.
func TestWhatMayWaitIsToldInAMoment(t *testing.T) {
	t.Parallel()
	type woken struct {
		name string
		how  urgency
	}
	for name, c := range map[string]struct {
		changes    []woken
		now, later []string
	}{
		"a change that wakes nobody":                      {[]woken{{"web", never}}, nil, nil},
		"one change":                                      {[]woken{{"web", soon}}, nil, []string{"c/shop/web"}},
		"many changes of one Rollout":                     {[]woken{{"web", soon}, {"web", soon}, {"web", soon}}, nil, []string{"c/shop/web"}},
		"changes of two Rollouts":                         {[]woken{{"web", soon}, {"other", soon}}, nil, []string{"c/shop/other", "c/shop/web"}},
		"one that is overtaken by one that wakes at once": {[]woken{{"web", soon}, {"web", atOnce}}, []string{"c/shop/web"}, nil},
		"one that follows one that wakes at once":         {[]woken{{"web", atOnce}, {"web", soon}}, []string{"c/shop/web"}, []string{"c/shop/web"}},
		"one of a Rollout that tolerates unready pods":    {[]woken{{"tolerant", soon}}, []string{"c/shop/tolerant"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play := func(w *Watcher) {
				w.index.put(key("tolerant"), &dependencies{plan: &plan{tolerant: true}})
				for _, change := range c.changes {
					w.hintAs(key(change.name), change.how)
				}
			}
			now := told(play)
			if diff := cmp.Diff(c.now, now); diff != "" {
				t.Errorf("told at once (-want +got):\n%s", diff)
			}
			later := told(func(w *Watcher) { play(w); w.flush(); w.flush() })[len(now):]
			slices.Sort(later)
			if diff := cmp.Diff(c.later, later, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("told a moment later (-want +got):\n%s", diff)
			}
		})
	}
}
