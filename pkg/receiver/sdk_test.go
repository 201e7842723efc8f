package receiver_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/cloudevents/sdk-go/v2/binding"
	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	sdk "github.com/cloudevents/sdk-go/v2/protocol/http"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
)

// Programs that use the SDK of CloudEvents send approvals and read the answer without any library of Sluice.
func TestTheSDKOfCloudEventsSendsAndReads(t *testing.T) {
	w := aWorld(t, gate{})
	w.decide(func(queue.Approval) api.Refusal { return "" })
	e := cloudevents.New()
	e.SetType(event.TypeApproval)
	e.SetSource("/ci/acme") // the SDK does not percent-encode header values, so no value here needs it
	e.SetID("run-1")
	e.SetSubject("namespaces/shop/rollouts/web")
	if err := e.SetData("application/json", map[string]any{"decision": "approve", "rolloutID": "v1"}); err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(*http.Request) (*http.Request, error){
		"binary": func(r *http.Request) (*http.Request, error) {
			return r, sdk.WriteRequest(binding.WithForceBinary(t.Context()), binding.ToMessage(&e), r)
		},
		"structured": func(r *http.Request) (*http.Request, error) {
			return r, sdk.WriteRequest(binding.WithForceStructured(t.Context()), binding.ToMessage(&e), r)
		},
		"batched": func(r *http.Request) (*http.Request, error) {
			batch, err := sdk.NewHTTPRequestFromEvents(t.Context(), r.URL.String(), []cloudevents.Event{e})
			return batch, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/v1/events?wait=20s", nil)
			if err == nil {
				r, err = write(r)
			}
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer token-of-ci")
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				text, _ := io.ReadAll(response.Body)
				t.Fatalf("%d %s", response.StatusCode, text)
			}
			if name == "batched" {
				return // its answer is no event
			}
			answer, err := binding.ToEvent(context.Background(), sdk.NewMessageFromHttpResponse(response))
			if err != nil {
				t.Fatal(err)
			}
			d, err := event.ParseDecided(*answer)
			if err != nil || !d.Accepted || d.ApprovalSource != "/ci/acme" || d.ApprovalID != "run-1" || answer.Extensions()[event.ExtensionCausation] != "run-1" {
				t.Errorf("%v: %v", err, answer)
			}
		})
	}
}
