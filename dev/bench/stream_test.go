package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// A server of the test sends the same answers as a busy API server.
func TestAWatchThatTheServerCannotGoOnWithIsBegunAgain(t *testing.T) {
	t.Parallel()
	const seen = `{"type":"ADDED","object":{"metadata":{"name":%q,"namespace":"shop"},"status":{"phase":"Healthy"}}}` + "\n"
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch asked.Add(1) {
		case 1:
			fmt.Fprintf(w, seen+`{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410,"reason":"Expired"}}`, "a")
		case 2:
			http.Error(w, "busy", http.StatusGatewayTimeout)
		default:
			fmt.Fprintf(w, seen, "b")
		}
	}))
	defer server.Close()
	c, err := newClient(&rest.Config{Host: server.URL}, userAgent)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	err = c.watch(ctx, "/things", "", func(e change) {
		if got = append(got, e.Object.key()); e.Object.Metadata.Name == "b" {
			cancel()
		}
	})
	if diff := cmp.Diff([]string{"shop/a", "shop/b"}, got); err != nil || diff != "" {
		t.Errorf("%v, what was told (-want +got):\n%s", err, diff)
	}
}

func TestWhatABusyServerRefusesIsSentAgainAndNothingElse(t *testing.T) {
	t.Parallel()
	things := schema.GroupResource{Resource: "things"}
	for name, c := range map[string]struct {
		err  error
		sent int
		wait time.Duration
	}{
		"nothing":                 {nil, 1, 0},
		"too many requests":       {apierrors.NewTooManyRequestsError("later"), attempts, 12700 * time.Millisecond},
		"a timeout of etcd":       {apierrors.NewTimeoutError("etcdserver: request timed out", 0), attempts, 12700 * time.Millisecond},
		"a lost connection":       {fmt.Errorf("post: %w", errors.New("http2: client connection lost")), attempts, 12700 * time.Millisecond},
		"something that is there": {apierrors.NewAlreadyExists(things, "a"), 1, 0},
		"what is not allowed":     {apierrors.NewForbidden(things, "a", nil), 1, 0},
		"the end of the bench":    {context.Canceled, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, sent := time.Now(), 0
				err := patiently(t.Context(), func(again bool) error {
					if again != (sent > 0) {
						t.Errorf("again is %v after %d times", again, sent)
					}
					sent++
					return c.err
				})
				if took := time.Since(began); !errors.Is(err, c.err) || sent != c.sent || took != c.wait {
					t.Errorf("sent %d times within %s, want %d within %s; %v", sent, took, c.sent, c.wait, err)
				}
			})
		})
	}
}
