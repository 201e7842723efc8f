package receiver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
)

func TestWhatTheReceiverAnswers(t *testing.T) {
	w := aWorld(t, gate{})
	big := approval(map[string]any{"data": map[string]any{"decision": "approve", "rolloutID": "v1", "comment": strings.Repeat("x", 1<<20)}})
	batch := func(n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(approval(nil)+",", n), ",") + "]"
	}
	for name, c := range map[string]struct {
		request
		status int
		want   string
	}{
		"a good event is stored":             {request{body: approval(nil), contentType: structured}, 202, "stored and not decided yet"},
		"no token":                           {request{body: approval(nil), contentType: structured, token: "-"}, 401, "Say who you are"},
		"another scheme":                     {request{body: approval(nil), contentType: structured, token: "Basic token-of-ci"}, 401, "Say who you are"},
		"a strange token":                    {request{body: approval(nil), contentType: structured, token: "Bearer x"}, 401, "The token is not valid"},
		"a caller who may not":               {request{body: approval(nil), contentType: structured, token: "Bearer token-of-mallory"}, 403, `"refusal":"NotAllowed"`},
		"another namespace":                  {request{body: approval(map[string]any{"subject": "namespaces/bank/rollouts/web"}), contentType: structured}, 403, `kubectl create rolebinding NAME -n bank --clusterrole=sluice-approver --user=\"ci\"`},
		"the API server cannot tell":         {request{body: approval(map[string]any{"subject": "namespaces/dark/rollouts/web"}), contentType: structured}, 503, "send the same event again"},
		"no content type":                    {request{body: approval(nil)}, 415, "application/cloudevents+json"},
		"plain JSON":                         {request{body: approval(nil), contentType: "application/json"}, 415, "ce-specversion"},
		"another format":                     {request{body: "<x/>", contentType: "application/cloudevents+xml"}, 415, "Not a CloudEvent"},
		"a content type that is none":        {request{body: "x", contentType: ";;"}, 415, "cannot be read"},
		"a body too large":                   {request{body: big, contentType: structured}, 413, "larger than 1048576 bytes"},
		"a batch too long":                   {request{body: batch(101), contentType: "application/cloudevents-batch+json"}, 413, "at most 100"},
		"an empty batch":                     {request{body: "[]", contentType: "application/cloudevents-batch+json"}, 400, "the batch is empty"},
		"a batch that is none":               {request{body: "{}", contentType: "application/cloudevents-batch+json"}, 400, "JSON array"},
		"a batch and more":                   {request{body: batch(1) + "[]", contentType: "application/cloudevents-batch+json"}, 400, "something follows"},
		"garbage":                            {request{body: "\x00\xff", contentType: structured}, 400, `"refusal":"Malformed"`},
		"no body":                            {request{contentType: structured}, 400, `"refusal":"Malformed"`},
		"another type of event":              {request{body: approval(map[string]any{"type": "x"}), contentType: structured}, 400, "type is"},
		"no id":                              {request{body: approval(map[string]any{"id": nil}), contentType: structured}, 400, "id"},
		"a subject that names no Rollout":    {request{body: approval(map[string]any{"subject": "web"}), contentType: structured}, 400, "namespaces/<namespace>/rollouts/<name>"},
		"a subject that no Rollout can have": {request{body: approval(map[string]any{"subject": "namespaces/shop/rollouts/*"}), contentType: structured}, 400, "names no Rollout"},
		"no release is named":                {request{body: approval(map[string]any{"data": map[string]any{"decision": "approve"}}), contentType: structured}, 400, "names no release"},
		"a wait that is none":                {request{path: "/v1/events?wait=soon", body: approval(nil), contentType: structured}, 400, "give one like 30s"},
		"a wait too long":                    {request{path: "/v1/events?wait=11m", body: approval(nil), contentType: structured}, 400, "up to 10m0s"},
		"no decision in time":                {request{path: "/v1/events?wait=10ms", body: approval(nil), contentType: structured}, 202, "not decided yet"},
		"GET":                                {request{method: http.MethodGet}, 405, "POST"},
		"another path":                       {request{path: "/"}, 404, "/v1/events"},
	} {
		t.Run(name, func(t *testing.T) {
			status, header, body := w.send(c.request)
			if status != c.status || !strings.Contains(body, c.want) {
				t.Errorf("%d %s, want %d with %q", status, body, c.status, c.want)
			}
			var told struct{ Message string }
			if err := json.Unmarshal([]byte(body), &told); err != nil || told.Message == "" {
				t.Errorf("the answer %s has no message: %v", body, err)
			}
			if header.Get("Content-Type") != "application/json" || status == 503 && header.Get("Retry-After") == "" || status == 401 && header.Get("WWW-Authenticate") == "" {
				t.Errorf("the headers are %v", header)
			}
		})
	}
}

func TestTheModesOfCloudEventsComeToTheSame(t *testing.T) {
	w := aWorld(t, gate{})
	seen := make(chan queue.Approval, 10)
	w.decide(func(a queue.Approval) api.Refusal { seen <- a; return "" })
	binary := map[string]string{"ce-specversion": "1.0", "ce-type": event.TypeApproval, "ce-id": "1", "ce-source": "/ci", "ce-subject": "namespaces/shop/rollouts/web"}
	var bodies []string
	for _, r := range []request{
		{body: approval(nil), contentType: structured},
		{body: approval(nil), contentType: "application/cloudevents+json; charset=utf-8"},
		{body: `{"decision":"approve","rolloutID":"v1"}`, contentType: "application/json", header: binary},
		{body: "[" + approval(nil) + "]", contentType: "application/cloudevents-batch+json"},
	} {
		r.path = "/v1/events?wait=20s"
		status, header, body := w.send(r)
		if status != 200 {
			t.Fatalf("%+v: %d %s", r, status, body)
		}
		if !strings.HasPrefix(body, "[") && (header.Get("Ce-Type") != event.TypeDecided || header.Get("Ce-Causationid") != "1") {
			t.Errorf("the headers are no event: %v", header)
		}
		bodies = append(bodies, body)
		a := <-seen
		data, _, err := event.ParseApproval(a.Event)
		if diff := cmp.Diff(event.Approval{Decision: "approve", RolloutID: "v1"}, data); diff != "" || err != nil || a.Principal != "kubernetes:ci" {
			t.Errorf("%v, from %s: %s", err, a.Principal, diff)
		}
	}
	want := `{"accepted":true,"message":"So it is.","step":2,"principal":"kubernetes:ci","approvalSource":"/ci","approvalID":"1"}`
	if diff := cmp.Diff([]string{want, want, want, `[{"status":200,"body":` + want + `}]`}, bodies); diff != "" {
		t.Error(diff)
	}
}

func TestEachEventOfABatchHasItsOwnAnswerInOrder(t *testing.T) {
	w := aWorld(t, gate{})
	w.decide(func(a queue.Approval) api.Refusal {
		if a.Event.ID() == "late" {
			return api.RefusalAlreadyDecided
		}
		return ""
	})
	parts := []string{
		approval(map[string]any{"id": "good"}), `{"specversion":"1.0"}`, approval(map[string]any{"id": "late"}), "17",
		approval(map[string]any{"id": "else", "subject": "namespaces/bank/rollouts/web"}),
	}
	status, _, body := w.send(request{path: "/v1/events?wait=20s", contentType: "application/cloudevents-batch+json", body: "[" + strings.Join(parts, ",") + "]"})
	var answers []struct {
		Status int
		Body   struct{ ApprovalID, Refusal string }
	}
	if err := json.Unmarshal([]byte(body), &answers); err != nil || status != http.StatusMultiStatus {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	var got []string
	for _, a := range answers {
		got = append(got, fmt.Sprintf("%d %s %s", a.Status, a.Body.ApprovalID, a.Body.Refusal))
	}
	if diff := cmp.Diff([]string{"200 good ", "400  Malformed", "409 late AlreadyDecided", "400  Malformed", "403 else NotAllowed"}, got); diff != "" {
		t.Errorf("%s\n%s", diff, body)
	}
}

func TestTheReceiverSaysLaterWhenNATSOrTheAPIServerIsAway(t *testing.T) {
	t.Run("the API server", func(t *testing.T) {
		w := aWorld(t, gate{down: true})
		status, header, body := w.send(request{body: approval(nil), contentType: structured})
		if status != 503 || header.Get("Retry-After") == "" {
			t.Errorf("%d %v %s", status, header, body)
		}
	})
	t.Run("NATS", func(t *testing.T) {
		w := aWorld(t, gate{})
		w.nats.Close()
		status, header, body := w.send(request{body: approval(nil), contentType: structured, path: "/v1/events?wait=20s"})
		if status != 504 || header.Get("Retry-After") == "" || !strings.Contains(body, "NATS does not say whether it has stored the event") {
			t.Errorf("%d %v %s", status, header, body)
		}
	})
}

// A caller who waits for many decisions in parallel does not block other callers.
func TestOneCallerCannotTakeAllPlaces(t *testing.T) {
	w := aWorld(t, gate{})
	release := make(chan struct{})
	w.decide(func(queue.Approval) api.Refusal { <-release; return "" })
	const places = 64
	statuses := make(chan int, places+1)
	for i := range places + 1 {
		go func() {
			status, _, _ := w.send(request{path: "/v1/events?wait=20s", contentType: structured, body: approval(map[string]any{"id": fmt.Sprint(i)})})
			statuses <- status
		}()
	}
	if status := <-statuses; status != http.StatusTooManyRequests {
		t.Errorf("the first to be answered gets %d", status)
	}
	if status, _, body := w.send(request{contentType: structured, token: "Bearer token-of-other", body: approval(nil)}); status != http.StatusAccepted {
		t.Errorf("another caller gets %d %s", status, body)
	}
	close(release)
	for range places {
		if status := <-statuses; status != http.StatusOK {
			t.Errorf("who waited gets %d", status)
		}
	}
}

// An event with the same source and id is another decision when it comes through the receiver, so that it has its own answer.
func TestTheSameNameAtNATSAndAtTheReceiverIsTwo(t *testing.T) {
	w := aWorld(t, gate{})
	seen := make(chan string, 10)
	w.decide(func(a queue.Approval) api.Refusal { seen <- a.Principal; return "" })
	var e event.Event
	if err := e.UnmarshalJSON([]byte(approval(nil))); err != nil {
		t.Fatal(err)
	}
	if err := w.queue.PublishApproval(t.Context(), queue.Key{Cluster: "default", Namespace: "shop", Name: "web"}, "ci", e); err != nil {
		t.Fatal(err)
	}
	if status, _, body := w.send(request{path: "/v1/events?wait=20s", contentType: structured, body: approval(nil)}); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if diff := cmp.Diff([]string{"ci", "kubernetes:ci"}, []string{<-seen, <-seen}); diff != "" {
		t.Errorf("who decided (-want +got):\n%s", diff)
	}
}
