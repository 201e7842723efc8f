package load

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/dev/demo/app"
)

// site answers every tenth request with 500, and records the users.
type site struct {
	mu    sync.Mutex
	seen  int
	users map[string]bool
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen++
	s.users[r.Header.Get(app.UserHeader)] = true
	if s.seen%10 == 0 {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func TestItSendsNoFasterThanItWasToldAndCountsEveryAnswer(t *testing.T) {
	t.Parallel()
	s := &site{users: map[string]bool{}}
	server := httptest.NewServer(s)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	got := Run(ctx, Options{URL: server.URL, Rate: 200, Users: 5})
	took := time.Since(began)
	s.mu.Lock()
	defer s.mu.Unlock()
	want := Result{Sent: s.seen, Answered: map[int]int{200: s.seen - s.seen/10, 500: s.seen / 10}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if most := int(took.Seconds()*200) + workers; got.Sent > most || got.Sent == 0 {
		t.Errorf("it sent %d requests in %s, and %d are the most", got.Sent, took, most)
	}
	if diff := cmp.Diff(map[string]bool{"user-0": true, "user-1": true, "user-2": true, "user-3": true, "user-4": true}, s.users); diff != "" {
		t.Error(diff)
	}
}

func TestRequestsWithoutAnAnswerAreCountedAsLost(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	got := Run(ctx, Options{URL: "http://127.0.0.1:1", Rate: 400, Users: 1})
	if got.Lost == 0 || got.Lost != got.Sent {
		t.Errorf("of %d requests to nobody %d were lost", got.Sent, got.Lost)
	}
}
