package doorclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	"sluice.dev/sluice/cmd/internal/doorclient"
	"sluice.dev/sluice/pkg/event"
)

func TestADecisionThatTheDoorMayHaveIsUndecided(t *testing.T) {
	t.Parallel()
	approval := cloudevents.New()
	approval.SetType(event.TypeApproval)
	approval.SetID("1")
	approval.SetSource("/ci")
	for name, c := range map[string]struct {
		status    int // 0 for no answer
		undecided bool
	}{
		"taken, and no decision": {http.StatusAccepted, true},
		"no answer":              {0, true},
		"not taken":              {http.StatusServiceUnavailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				switch c.status {
				case 0:
					cancel()
					<-r.Context().Done()
				case http.StatusAccepted:
					cancel()
				}
				w.WriteHeader(max(c.status, http.StatusOK))
			}))
			t.Cleanup(server.Close)
			client := doorclient.Client{
				URL: server.URL, Token: func(context.Context) (string, error) { return "t", nil }, Warn: func(error) { cancel() },
			}
			decided, err := client.Send(ctx, approval, true)
			if decided != nil || err == nil || errors.Is(err, doorclient.ErrUndecided) != c.undecided {
				t.Errorf("got %v and the error %v", decided, err)
			}
		})
	}
}
