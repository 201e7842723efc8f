package executor_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// subscriber is a client that knows only the subjects of Sluice: it sees the events that any NATS client sees.
type subscriber struct {
	mu       sync.Mutex
	messages []*nats.Msg
}

func subscribe(t *testing.T, w *world.World, subject string) *subscriber {
	t.Helper()
	nc, err := nats.Connect(w.NATS.URL(), nats.UserInfo(w.NATS.User(), w.NATS.Password()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s := &subscriber{}
	if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.messages = append(s.messages, m)
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return s
}

// until waits for an event of the type about the Rollout of the namespace. It returns the events about the Rollout up to then, each id once.
func (s *subscriber) until(t *testing.T, ns, kind string) (list []*nats.Msg) {
	t.Helper()
	deadline := time.After(10 * time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if list, ok := s.upTo(ns, kind); ok {
			return list
		}
		select {
		case <-tick.C:
		case <-deadline:
			list, _ := s.upTo(ns, kind)
			t.Fatalf("no event %s came, only %v", kind, typesOf(list))
		}
	}
}

func (s *subscriber) upTo(ns, kind string) (list []*nats.Msg, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[string]bool{}
	for _, m := range s.messages {
		if plain(m, "ce-subject") != "namespaces/"+ns+"/rollouts/rollouts-demo" {
			continue
		}
		if id := plain(m, "ce-id"); !known[id] {
			known[id] = true
			list = append(list, m)
		}
		if plain(m, "ce-type") == "dev.sluice."+kind+".v1" {
			return list, true
		}
	}
	return list, false
}

// plain reads an attribute by hand: a header with percent-encoding.
func plain(m *nats.Msg, name string) string {
	value, err := url.PathUnescape(m.Header.Get(name))
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return value
}

func typesOf(list []*nats.Msg) (types []string) {
	for _, m := range list {
		types = append(types, strings.TrimSuffix(strings.TrimPrefix(plain(m, "ce-type"), "dev.sluice."), ".v1"))
	}
	return types
}

// releaseToEnd approves each pause until the Rollout is healthy.
func releaseToEnd(t *testing.T, w *world.World, ns string) {
	t.Helper()
	for step := int32(1); step <= 3; step++ {
		w.Await(t, ns, "rollouts-demo", world.PausedAt(step))
		w.Approve(t, ns, "rollouts-demo")
	}
	w.Await(t, ns, "rollouts-demo", world.Healthy)
}

func TestAWholeReleaseInEventsThatAnyClientReads(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	everything := subscribe(t, w, "sluice.event.>")
	_, ns, r := pausedRelease(t)
	releaseToEnd(t, w, ns)
	list := everything.until(t, ns, "rollout.completed")
	step := []string{"step.upgrading", "step.upgraded", "traffic.routed", "step.paused", "step.approved"}
	want := append([]string{"rollout.started"}, "step.started")
	want = append(append(want, step...), "step.started")
	want = append(append(want, step...), "step.started")
	want = append(append(want, step...), "rollout.promoted", "rollout.finalising", "traffic.restored", "rollout.completed")
	if diff := cmp.Diff(want, typesOf(list)); diff != "" {
		t.Errorf("the events of a release (-want +got):\n%s", diff)
	}
	for i, m := range list {
		fitsItsSchema(t, m)
		readsTheSame(t, m)
		var d event.Data
		if err := json.Unmarshal(m.Data, &d); err != nil {
			t.Fatal(err)
		}
		told := []any{d.UID, d.Release.Epoch, d.Cause != "", d.Message != ""}
		if diff := cmp.Diff([]any{string(r.UID), int64(1), true, true}, told); diff != "" {
			t.Errorf("event %d, %s (-want +got):\n%s", i, plain(m, "ce-type"), diff)
		}
		if plain(m, "ce-type") == "dev.sluice.step.approved.v1" && d.Actor == "" {
			t.Errorf("nobody approved step %d", d.Step.Index)
		}
	}
}

func TestAHoldIsToldWhenItBeginsAndEnds(t *testing.T) {
	t.Parallel()
	w, ns, _ := pausedRelease(t)
	heard := subscribe(t, w, queue.Key{Cluster: "default", Namespace: ns, Name: "rollouts-demo"}.EventSubject())
	service := w.Get(t, ns, "service", "service-demo")
	w.Do(t, "delete", "service", "service-demo", "-n", ns)
	w.Await(t, ns, "rollouts-demo", world.HeldFor(rollout.ReasonServiceMissing))
	raised := heard.until(t, ns, "failure.raised")
	var d event.Data
	if err := json.Unmarshal(raised[len(raised)-1].Data, &d); err != nil {
		t.Fatal(err)
	}
	if d.Reason != "ServiceMissing" || !strings.Contains(d.Message, "create it") || d.To != "Stalled" || d.Step.Index != 1 {
		t.Errorf("it tells %+v", d)
	}
	service.SetResourceVersion("")
	service.SetUID("")
	text, err := service.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	w.Apply(t, ns, string(text))
	for _, m := range heard.until(t, ns, "failure.resolved") {
		fitsItsSchema(t, m)
	}
	w.Await(t, ns, "rollouts-demo", func(r *api.Rollout) bool { return world.Condition(r, api.ConditionStalled) == nil })
}

func fitsItsSchema(t *testing.T, m *nats.Msg) {
	t.Helper()
	kind := plain(m, "ce-type")
	text, err := event.SchemaOf(kind)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(kind, document); err != nil {
		t.Fatal(err)
	}
	data, err := jsonschema.UnmarshalJSON(bytes.NewReader(m.Data))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.MustCompile(kind).Validate(data); err != nil {
		t.Errorf("%s: %v\n%s", kind, err, m.Data)
	}
}

// readsTheSame decodes an event as other programs do: over HTTP in binary mode with the same headers, from JSON, and over HTTP in structured mode.
func readsTheSame(t *testing.T, m *nats.Msg) {
	t.Helper()
	want, err := event.Decode(m.Header, m.Data)
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(m.Data))
	for name, values := range m.Header {
		if strings.HasPrefix(name, "ce-") && name != "ce-datacontenttype" || name == "content-type" {
			request.Header.Set(name, values[0])
		}
	}
	fromHTTP, err := cehttp.NewEventFromHTTPRequest(request)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), fromHTTP.String()); diff != "" {
		t.Errorf("over HTTP in binary mode (-want +got):\n%s", diff)
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var fromJSON cloudevents.Event
	if err := fromJSON.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), fromJSON.String()); diff != "" {
		t.Errorf("as JSON (-want +got):\n%s", diff)
	}
	request = httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(text))
	request.Header.Set("Content-Type", "application/cloudevents+json")
	structured, err := cehttp.NewEventFromHTTPRequest(request)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), structured.String()); diff != "" {
		t.Errorf("over HTTP in structured mode (-want +got):\n%s", diff)
	}
}
