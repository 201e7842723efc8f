package cluster

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/rollout"
)

func TestNothingIsMadeFromWhatWasSeenLongAgo(t *testing.T) {
	t.Parallel()
	looked := time.Now()
	s := &Snapshot{sure: looked}
	for name, c := range map[string]struct {
		action rollout.Action
		after  time.Duration
		fenced bool
	}{
		"a canary at once":                    {rollout.CreateCanary{}, time.Millisecond, false},
		"a canary after a stop":               {rollout.CreateCanary{}, fence + time.Second, true},
		"a canary Service after a stop":       {rollout.CreateCanaryService{}, fence + time.Second, true},
		"pods to be deleted after a stop":     {rollout.ReplacePods{}, fence + time.Second, true},
		"what the API server refuses by then": {rollout.ScaleCanary{}, time.Hour, false},
	} {
		if got := s.fenced(c.action, looked.Add(c.after)); got != c.fenced {
			t.Errorf("%s is too late: %t, want %t", name, got, c.fenced)
		}
	}
}

// overslept is the context of a request whose process was stopped: its time is over, and nothing has noticed yet.
type overslept struct{ context.Context }

func (overslept) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// answering answers every request.
type answering struct{ asked int }

func (a *answering) RoundTrip(*http.Request) (*http.Response, error) {
	a.asked++
	return &http.Response{StatusCode: http.StatusCreated, Body: http.NoBody}, nil
}

func TestARequestThatItsProcessWokeUpWithTooLateIsNotSent(t *testing.T) {
	t.Parallel()
	soon, cancel := soon(t.Context(), time.Now())
	defer cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		sent int
		err  error
	}{
		"without a deadline": {t.Context(), 1, nil},
		"in time":            {soon, 1, nil},
		"too late":           {overslept{t.Context()}, 0, context.DeadlineExceeded},
	} {
		server := &answering{}
		request, err := http.NewRequestWithContext(c.ctx, http.MethodPost, "http://127.0.0.1", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := punctual{server}.RoundTrip(request)
		if !errors.Is(err, c.err) || server.asked != c.sent {
			t.Errorf("%s: sent %d times, error %v, want %d, %v", name, server.asked, err, c.sent, c.err)
		}
		if response != nil {
			_ = response.Body.Close()
		}
	}
}
