package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/receiver/client"
)

func TestADecisionThatTheReceiverMayHaveIsUndecided(t *testing.T) {
	t.Parallel()
	approval := cloudevents.New()
	approval.SetType(event.TypeApproval)
	approval.SetID("1")
	approval.SetSource("/ci")
	later := func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }
	for name, c := range map[string]struct {
		answers   []func(http.ResponseWriter) // the answers of the receiver in order; a nil element leaves the request unanswered
		undecided bool
	}{
		"taken, and no decision": {[]func(http.ResponseWriter){func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) }, later}, true},
		"no answer":              {[]func(http.ResponseWriter){nil}, true},
		"no answer of NATS":      {[]func(http.ResponseWriter){func(w http.ResponseWriter) { w.WriteHeader(http.StatusGatewayTimeout) }}, true},
		"not taken":              {[]func(http.ResponseWriter){later}, false},
		"nobody there":           {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answers := c.answers
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				answer := answers[0]
				answers = answers[1:]
				if answer == nil {
					cancel()
					<-r.Context().Done()
					return
				}
				answer(w)
			}))
			t.Cleanup(server.Close)
			if c.answers == nil {
				server.Close()
			}
			to := client.Client{
				URL: server.URL, Token: func(context.Context) (string, error) { return "t", nil }, Warn: func(error) { cancel() },
			}
			decided, err := to.SendEvent(ctx, approval, true)
			if decided != nil || err == nil || errors.Is(err, client.ErrUndecided) != c.undecided {
				t.Errorf("got %v and the error %v", decided, err)
			}
		})
	}
}
