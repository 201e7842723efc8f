package receiver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/pkg/receiver"
	"sluice.dev/sluice/test/natsdir"
)

// gate accepts the token of any name, and lets every user except mallory approve in namespace shop.
type gate struct{ down bool }

var errDown = errors.New("the API server is away")

func (g gate) Authenticate(_ context.Context, token string) (receiver.Caller, error) {
	name, ok := strings.CutPrefix(token, "token-of-")
	switch {
	case g.down:
		return receiver.Caller{}, errDown
	case !ok:
		return receiver.Caller{}, receiver.ErrUnauthenticated
	}
	return receiver.Caller{UserInfo: authenticationv1.UserInfo{Username: name}}, nil
}

func (gate) Authorize(_ context.Context, c receiver.Caller, p receiver.Permission) (bool, error) {
	if p.Namespace == "dark" {
		return false, errDown
	}
	if verb, limited := strings.CutPrefix(c.Username, "only-"); limited { // its name is all that it may do
		return p.Namespace == "shop" && slices.Contains(strings.Split(verb, "-"), p.Verb), nil
	}
	return c.Username != "mallory" && p.Namespace == "shop", nil
}

// world is a receiver with a real NATS server.
type world struct {
	*testing.T
	nats  *embedded.Server
	queue *queue.Queue
	url   string
}

func aWorld(t *testing.T, g gate) *world {
	t.Helper()
	t.Parallel()
	s, err := embedded.Start(embedded.Options{Dir: natsdir.ForTest(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	q, err := queue.Connect(t.Context(), queue.Options{URL: s.URL(), User: s.User(), Password: s.Password()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	server := httptest.NewServer(receiver.New(receiver.Options{ClusterName: "default", AccessControl: g, Queue: q, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}))
	t.Cleanup(server.Close)
	return &world{t, s, q, server.URL}
}

// decide answers approvals as the function says, instead of an executor.
func (w *world) decide(answer func(queue.Approval) api.Refusal) {
	w.Helper()
	w.handle(queue.TaskRelease, func(ctx context.Context, a queue.Approval) error {
		why := answer(a)
		d := event.Decided{Accepted: why == "", Refusal: why, Message: "So it is.", Step: 2, Principal: a.Principal, ApprovalSource: a.Event.Source(), ApprovalID: a.Event.ID()}
		e, err := event.NewDecided(event.Rollout{Cluster: a.Key.Cluster, Namespace: a.Key.Namespace, Name: a.Key.Name}, d, time.Unix(1, 0).UTC())
		if err != nil {
			return err
		}
		return w.queue.PublishEvent(ctx, e)
	})
}

// consume takes requests, and answers none.
func (w *world) consume(task string, take func(queue.Approval)) {
	w.Helper()
	w.handle(task, func(_ context.Context, a queue.Approval) error { take(a); return nil })
}

func (w *world) handle(task string, handler queue.ApprovalHandler) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() {
		done <- w.queue.ConsumeApprovals(ctx, queue.ApprovalOptions{Cluster: "default", Task: task, Workers: 1, Handler: handler})
	}()
	w.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.Error(err)
		}
	})
}

// request is one request of a test; unset fields get valid defaults.
type request struct {
	method, path, token, contentType, body string
	header                                 map[string]string
}

const structured = "application/cloudevents+json"

func (w *world) send(r request) (status int, header http.Header, body string) {
	w.Helper()
	if r.method == "" {
		r.method = http.MethodPost
	}
	if r.path == "" {
		r.path = "/v1/events"
	}
	request, err := http.NewRequestWithContext(w.Context(), r.method, w.url+r.path, strings.NewReader(r.body))
	if err != nil {
		w.Fatal(err)
	}
	if r.token != "-" {
		if r.token == "" {
			r.token = "Bearer token-of-ci"
		}
		request.Header.Set("Authorization", r.token)
	}
	if r.contentType != "" {
		request.Header.Set("Content-Type", r.contentType)
	}
	for name, value := range r.header {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.Fatal(err)
	}
	return response.StatusCode, response.Header, strings.TrimSpace(string(text))
}

// approval returns an event as JSON, with some attributes changed; a nil attribute is absent.
func approval(changes map[string]any) string {
	e := map[string]any{
		"specversion": "1.0", "type": event.TypeApproval, "id": "1", "source": "/ci", "subject": "namespaces/shop/rollouts/web",
		"datacontenttype": "application/json", "data": map[string]any{"decision": "approve", "rolloutID": "v1"},
	}
	for name, value := range changes {
		if e[name] = value; value == nil {
			delete(e, name)
		}
	}
	text, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return string(text)
}
