package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/test/world"
)

// pipeline sends decisions about a demo, as a CI system with a NATS connection does.
type pipeline struct {
	*demo
	queue *queue.Queue
	key   queue.Key
	begun time.Time
}

func aPipeline(t *testing.T, d *demo) *pipeline {
	t.Helper()
	q, err := d.w.Connect(t.Context(), "ci")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return &pipeline{demo: d, queue: q, key: queue.Key{Cluster: d.w.Name, Namespace: d.ns, Name: "rollouts-demo"}, begun: time.Now()}
}

// decision returns the data of an approval that names the release by the image of its new version.
func decision(d api.Decision, more ...any) map[string]any {
	data := map[string]any{"decision": d, "image": "nginx"}
	for i := 0; i < len(more); i += 2 {
		data[more[i].(string)] = more[i+1]
	}
	return data
}

func (p *pipeline) event(t *testing.T, id string, data map[string]any) event.Event {
	t.Helper()
	e := cloudevents.New()
	e.SetType(event.TypeApproval)
	e.SetID(id)
	e.SetSource("/ci/acme/demo")
	e.SetSubject("namespaces/" + p.key.Namespace + "/rollouts/" + p.key.Name)
	if err := e.SetData("application/json", data); err != nil {
		t.Fatal(err)
	}
	return e
}

// decide sends a decision and waits for the answer.
func (p *pipeline) decide(t *testing.T, principal, id string, data map[string]any) event.Decided {
	t.Helper()
	e := p.event(t, id, data)
	if err := p.queue.PublishApproval(t.Context(), p.key, principal, e); err != nil {
		t.Fatal(err)
	}
	d, _ := p.answer(t, principal, e)
	return d
}

// answer waits for the answer to an event.
func (p *pipeline) answer(t *testing.T, principal string, e event.Event) (event.Decided, event.Event) {
	t.Helper()
	want := event.DecidedID(event.Rollout{Cluster: p.key.Cluster, Namespace: p.key.Namespace, Name: p.key.Name}, principal, e.Source(), e.ID())
	for got := range p.events(t) {
		if got.ID() != want {
			continue
		}
		d, err := event.ParseDecided(got)
		if err != nil {
			t.Fatal(err)
		}
		return d, got
	}
	t.Fatalf("approval %s of %s was not answered", e.ID(), principal)
	panic(errors.ErrUnsupported)
}

// events returns all events about the Rollout since the pipeline began, past and future, for a bounded time.
func (p *pipeline) events(t *testing.T) func(yield func(event.Event) bool) {
	t.Helper()
	return func(yield func(event.Event) bool) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		for e, err := range p.queue.ReadEvents(ctx, queue.ReadOptions{Cluster: p.key.Cluster, Namespace: p.key.Namespace, Name: p.key.Name, Since: p.begun, Follow: true}) {
			if err != nil {
				t.Fatal(err)
			}
			if !yield(e) {
				return
			}
		}
	}
}

// answers returns the answers so far, by approval id. More than one answer to the same approval fails the test.
func (p *pipeline) answers(t *testing.T) map[string]event.Decided {
	t.Helper()
	found := map[string]event.Decided{}
	seen := map[string]bool{}
	for e, err := range p.queue.ReadEvents(t.Context(), queue.ReadOptions{Cluster: p.key.Cluster, Namespace: p.key.Namespace, Name: p.key.Name, Since: p.begun}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type() != event.TypeDecided {
			continue
		}
		d, err := event.ParseDecided(e)
		if err != nil {
			t.Fatal(err)
		}
		if seen[e.ID()] {
			t.Errorf("approval %s of %s was answered twice", d.ApprovalID, d.Principal)
		}
		seen[e.ID()] = true
		found[fmt.Sprint(d.Principal, " ", d.ApprovalID)] = d
	}
	return found
}

// recorded returns the Kubernetes Events with a reason, once there are n. Components write them in parallel with the
// work that they report.
func (p *pipeline) recorded(t *testing.T, reason string, n int) []string {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Minute); ; <-tick.C {
		var list struct {
			Items []struct{ Note, Reason string }
		}
		out := p.w.Do(t, "-n", p.ns, "get", "events.events.k8s.io", "-o", "json")
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			t.Fatal(err)
		}
		var notes []string
		for _, e := range list.Items {
			if e.Reason == reason {
				notes = append(notes, e.Note)
			}
		}
		if len(notes) >= n || time.Now().After(end) {
			return notes
		}
	}
}

// publishRaw sends a message without any check on the client side.
func publishRaw(t *testing.T, w *world.World, subject string, header map[string][]string, body []byte) {
	t.Helper()
	nc := plain(t, w)
	if err := nc.PublishMsg(&nats.Msg{Subject: subject, Header: header, Data: body}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

func plain(t *testing.T, w *world.World) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(w.NATS.URL(), nats.UserInfo(w.NATS.User(), w.NATS.Password()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// listen subscribes to answers like a CI system without rights to streams. Each call of next returns one.
func (p *pipeline) listen(t *testing.T) (next func(*testing.T) event.Decided) {
	t.Helper()
	nc := plain(t, p.w)
	sub, err := nc.SubscribeSync(p.key.EventSubject())
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T) event.Decided {
		t.Helper()
		for {
			m, err := sub.NextMsg(time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			e, err := event.Decode(m.Header, m.Data)
			if err != nil {
				t.Fatal(err)
			}
			if e.Type() != event.TypeDecided {
				continue
			}
			d, err := event.ParseDecided(e)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
}
