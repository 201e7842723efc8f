package watcher

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Endpoints come and go with the pods of an application. Only a release under way depends on them.
func TestEndpointsWakeOnlyWhoReleases(t *testing.T) {
	t.Parallel()
	got := told(func(w *Watcher) {
		for name, releasing := range map[string]bool{"web": true, "other": false} {
			w.index.putDependencies(key(name), &dependencies{plan: &plan{objects: []object{{kind: "Service", name: key("web")}}}, releasing: releasing})
		}
		w.endpointsChanged(&fact{name: key("web-x"), service: "web"}, false, atOnce)
	})
	if diff := cmp.Diff([]string{"c/shop/web"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !dependenciesIn(t, pausedRollout).releasing || dependenciesIn(t, strings.Replace(pausedRollout, "state: StepPaused", "state: Idle", 1)).releasing {
		t.Error("it is not the state that tells whether a release is under way")
	}
}

// The watcher gathers changes that wake only soon for a moment. It always hints them afterwards, because no other
// change may follow.
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
				w.index.putDependencies(key("tolerant"), &dependencies{plan: &plan{tolerant: true}})
				for _, change := range c.changes {
					w.hintByUrgency(key(change.name), change.how)
				}
			}
			now := told(play)
			if diff := cmp.Diff(c.now, now); diff != "" {
				t.Errorf("told at once (-want +got):\n%s", diff)
			}
			later := told(func(w *Watcher) { play(w); w.flushGathered(); w.flushGathered() })[len(now):]
			slices.Sort(later)
			if diff := cmp.Diff(c.later, later, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("told a moment later (-want +got):\n%s", diff)
			}
		})
	}
}
