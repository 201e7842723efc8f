package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func seenAs(version int, phase string, step int, state string) change {
	text := fmt.Sprintf(`{"type":"MODIFIED","object":{"metadata":{"namespace":"n","name":"a","resourceVersion":"%d"},
		"status":{"phase":%q,"message":"it says so","canaryStatus":{"currentStepIndex":%d,"currentStepState":%q}}}}`, version, phase, step, state)
	var c change
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		panic(err)
	}
	return c
}

type outcome struct{ Pauses, Approvals, Lost, Refused int }

func TestAReleaseIsFollowedByWhatIsSeenOfIt(t *testing.T) {
	t.Parallel()
	paused := func(version, step int) change { return seenAs(version, "Progressing", step, "StepPaused") }
	before, after := seenAs(1, "Healthy", 3, "Completed"), seenAs(90, "Healthy", 3, "Completed")
	for name, c := range map[string]struct {
		seen []change
		// answers are the answers to approvals, in order; a negative one is a refusal.
		answers []int
		want    outcome
	}{
		"two steps": {[]change{before, paused(10, 1), paused(20, 2), after}, []int{11, 21}, outcome{2, 2, 0, 0}},
		"the state before the change is not its end":      {[]change{before, before, paused(10, 1), after}, []int{11}, outcome{1, 1, 0, 0}},
		"a late answer to the step before does not count": {[]change{paused(10, 1), paused(12, 2), {Type: "PAUSE"}, after}, []int{11 + late, 13}, outcome{2, 2, 0, 0}},
		"an older sight of a step is no lost approval":    {[]change{paused(10, 1), paused(10, 1), after}, []int{11}, outcome{1, 1, 0, 0}},
		"an approval that is written over is given again": {[]change{paused(10, 1), paused(12, 1), after}, []int{11, 13}, outcome{1, 2, 1, 0}},
		"an approval is written over before its answer":   {[]change{paused(10, 1), paused(12, 1), {Type: "PAUSE"}, after}, []int{late + 11, 13}, outcome{1, 2, 1, 0}},
		"a refused approval is given again":               {[]change{paused(10, 1), after}, []int{-1, 11}, outcome{1, 2, 0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if diff := cmp.Diff(c.want, outcomeOf(t, c.seen, c.answers)); diff != "" {
					t.Errorf("outcome differs (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// late, added to an answer, delays it by a second.
const late = 1000

// outcomeOf passes the events of one release to a burst one by one, and waits for the actions of the burst in between.
func outcomeOf(t *testing.T, seen []change, answers []int) (got outcome) {
	t.Helper()
	w := newBurst([]rolloutName{{"n", "a"}})
	w.begin = func(context.Context, rolloutName) error { return nil }
	w.send = func(context.Context, rolloutName) (uint64, error) {
		next := answers[got.Approvals]
		got.Approvals++
		if next >= late {
			time.Sleep(time.Second)
			next -= late
		}
		if next < 0 {
			return 0, errors.New("refused")
		}
		return uint64(next), nil
	}
	w.change(t.Context())
	events := make(chan change)
	done := make(chan error, 1)
	go func() { done <- w.follow(t.Context(), events) }()
	for _, e := range seen {
		if e.Type == "PAUSE" {
			time.Sleep(2 * time.Second)
			continue
		}
		events <- e
		synctest.Wait()
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	f := w.flights["n/a"]
	got.Pauses, got.Lost, got.Refused = len(f.paused), f.lost, f.refused
	return got
}

func TestAReleaseThatDoesNotEndIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newBurst([]rolloutName{{"n", "a"}})
		w.begin = func(context.Context, rolloutName) error { return nil }
		w.change(t.Context())
		events := make(chan change, 1)
		events <- seenAs(10, "Progressing", 1, "StepUpgrade")
		err := w.follow(t.Context(), events)
		if err == nil || !strings.Contains(err.Error(), "Rollout n/a is Progressing after 0 pauses: it says so") {
			t.Errorf("error is %v", err)
		}
	})
}
