package router

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// service starts a server that answers with its name.
func service(t *testing.T, name string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// routing starts a router for two Services.
func routing(t *testing.T) (*Router, *httptest.Server) {
	t.Helper()
	r := New(map[string]string{"shop": service(t, "stable"), "shop-canary": service(t, "canary"), "gone": "127.0.0.1:1"}, slog.New(slog.DiscardHandler))
	front := httptest.NewServer(r)
	t.Cleanup(front.Close)
	return r, front
}

func ask(t *testing.T, front *httptest.Server) (int, string) {
	t.Helper()
	answer, err := front.Client().Get(front.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func TestRequestsAreDividedAsTheWeightsSay(t *testing.T) {
	t.Parallel()
	r, front := routing(t)
	r.set(table(t, split), nil)
	counts := map[string]int{}
	for range 2000 {
		_, body := ask(t, front)
		counts[body]++
	}
	// Of 2000 choices, 400 are expected with a standard deviation of 18. A difference of eight deviations does not happen.
	if counts["canary"] < 250 || counts["canary"] > 550 || counts["canary"]+counts["stable"] != 2000 {
		t.Errorf("a canary of 20 percent got %v", counts)
	}
}

func TestWhatCannotBeRoutedIsRefused(t *testing.T) {
	t.Parallel()
	r, front := routing(t)
	for _, c := range []struct {
		name    string
		set     func()
		code    int
		because string
	}{
		{"nothing was seen yet", func() {}, 503, "no VirtualService was seen yet"},
		{"no rule holds", func() { r.set(table(t, closed), nil) }, 404, "no rule"},
		{"there is no such Service", func() { r.set(table(t, strings.ReplaceAll(atRest, "shop", "other")), nil) }, 503, "no Service other"},
		{"the Service does not answer", func() { r.set(table(t, strings.ReplaceAll(atRest, "shop", "gone")), nil) }, 502, "ask Service gone"},
		{"it cannot be read any more", func() { r.set(Table{}, errors.New("it is odd")) }, 503, "it is odd"},
		{"it can again", func() { r.set(table(t, atRest), nil) }, 200, "stable"},
	} {
		c.set()
		if code, body := ask(t, front); code != c.code || !strings.Contains(body, c.because) {
			t.Errorf("%s: got %d %q", c.name, code, body)
		}
	}
}

func TestAwaitTellsSinceWhenTheRoutingIsSo(t *testing.T) {
	t.Parallel()
	r, _ := routing(t)
	began := time.Now()
	type found struct {
		table Table
		since time.Time
		err   error
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	got, looked := make(chan found), make(chan Table, 10)
	r.set(table(t, atRest), nil)
	go func() {
		table, since, err := r.Await(ctx, func(t Table) bool {
			looked <- t
			return t.Share("shop-canary") == 0.2
		})
		got <- found{table, since, err}
	}()
	<-looked
	r.set(table(t, split), nil)
	f := <-got
	if f.err != nil || f.table.String() != "shop 80%, shop-canary 20%" {
		t.Fatalf("found %v, %v", f.table, f.err)
	}
	if f.since.Before(began) {
		t.Errorf("it says since %s, before it was set", f.since)
	}
	r.set(table(t, split), nil)
	_, since, err := r.Await(ctx, func(t Table) bool { return t.Reaches("shop-canary") })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f.since, since); diff != "" {
		t.Errorf("seeing the same routing again is no change: %s", diff)
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	r, _ := routing(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := r.Await(ctx, func(Table) bool { return true }); !errors.Is(err, context.Canceled) {
		t.Errorf("a router without a table gave %v", err)
	}
}
