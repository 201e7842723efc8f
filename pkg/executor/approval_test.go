package executor_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/test/world"
)

// sent returns an approval of the paused step of the Rollout in a namespace, as the queue delivers it.
func sent(t *testing.T, ns, id string) queue.Approval {
	t.Helper()
	e := cloudevents.New()
	e.SetType(event.TypeApproval)
	e.SetID(id)
	e.SetSource("/ci")
	e.SetSubject("namespaces/" + ns + "/rollouts/rollouts-demo")
	if err := e.SetData("application/json", map[string]any{"decision": "approve", "image": "nginx"}); err != nil {
		t.Fatal(err)
	}
	return queue.Approval{Key: queue.Key{Cluster: "lab", Namespace: ns, Name: "rollouts-demo"}, Principal: "ci", Event: e, Arrived: time.Now()}
}

// decided returns the answers in the event stream of the lab.
func (l *lab) decided() (list []event.Decided) {
	l.Helper()
	q := l.connect()
	for e, err := range q.ReadEvents(l.Context(), queue.ReadOptions{Cluster: "lab"}) {
		if err != nil {
			l.Fatal(err)
		}
		if e.Type() == event.TypeDecided {
			d, err := event.ParseDecided(e)
			if err != nil {
				l.Fatal(err)
			}
			list = append(list, d)
		}
	}
	return list
}

func (l *lab) connect() *queue.Queue {
	l.Helper()
	q, err := queue.Connect(l.Context(), queue.Options{URL: l.server.URL(), User: l.server.User(), Password: l.server.Password(), Name: "lab", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(q.Close)
	return q
}

// dying makes the client of a config die around the write of the status, so that none of its later requests gets out.
func dying(config *rest.Config, written bool, die func()) *rest.Config {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, "/status") {
				return next.RoundTrip(r)
			}
			defer die()
			if !written {
				die()
			}
			return next.RoundTrip(r)
		})
	})
	return config
}

func TestADecisionSurvivesACrash(t *testing.T) {
	for name, tt := range map[string]struct {
		// written: the process dies after the write of the status, otherwise before it.
		written bool
		// meanwhile: a user approves the step with kubectl, and the next step pauses.
		meanwhile bool
		want      api.Refusal
	}{
		"after the decision was written":                      {written: true},
		"after it was written and the next step pauses":       {written: true, meanwhile: true},
		"before it was written":                               {},
		"before it was written and somebody else has decided": {meanwhile: true, want: api.RefusalAlreadyDecided},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, ns, _ := pausedRelease(t)
			l := newLab(t)
			in := sent(t, ns, "1")
			ctx, die := context.WithCancel(t.Context())
			if err := l.executorAs(dying(shared.As(api.DefaultExecutor), tt.written, die)).DecideApproval(ctx, in); err == nil {
				t.Fatal("the process did not die")
			}
			if got := l.decided(); len(got) > 0 {
				t.Fatalf("it was answered before it died: %+v", got)
			}
			if r := w.Await(t, ns, "rollouts-demo", func(*api.Rollout) bool { return true }); (len(r.Status.Approvals) == 1) != tt.written {
				t.Fatalf("when it died, the approvals were %+v", r.Status.Approvals)
			}
			if tt.meanwhile && !tt.written {
				w.Approve(t, ns, "rollouts-demo")
			}
			if tt.meanwhile && tt.written {
				if r := l.executor().Handle(t.Context(), in.Key); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			if tt.meanwhile {
				w.Await(t, ns, "rollouts-demo", world.PausedAt(2))
				in.Arrived = time.Now() // its sender has sent it again with a matching time
			}
			for range 3 { // NATS delivers it again to processes that have just started
				if err := l.executor().DecideApproval(t.Context(), in); err != nil {
					t.Fatal(err)
				}
			}
			got := l.decided()
			if len(got) != 1 || got[0].Refusal != tt.want || got[0].Accepted != (tt.want == "") {
				t.Errorf("the answers are %+v, want one with refusal %q", got, tt.want)
			}
			r := w.Await(t, ns, "rollouts-demo", func(*api.Rollout) bool { return true })
			if len(r.Status.Approvals) != 1 || r.Status.Approvals[0].Step != 1 || (r.Status.Approvals[0].EventID == "1") != (tt.want == "") {
				t.Errorf("the approvals are %+v", r.Status.Approvals)
			}
			if tt.want == "" && !l.hinted() {
				t.Error("nobody was told to go on with the release")
			}
		})
	}
}

// hinted waits for a hint and reports whether one came.
func (l *lab) hinted() bool {
	l.Helper()
	found := make(chan struct{}, 1)
	ctx, cancel := context.WithTimeout(l.Context(), 10*time.Minute)
	defer cancel()
	err := l.connect().Consume(ctx, queue.ConsumeOptions{Cluster: "lab", Handler: func(context.Context, queue.Key) queue.Result {
		select {
		case found <- struct{}{}:
		default:
		}
		cancel()
		return queue.Result{}
	}})
	if err != nil {
		l.Fatal(err)
	}
	return len(found) > 0
}

func TestARefusalIsRememberedAsLongAsItsEvent(t *testing.T) {
	t.Parallel()
	w, ns, _ := pausedRelease(t)
	l := newLab(t)
	early := sent(t, ns, "1")
	early.Arrived = early.Arrived.Add(-time.Hour)
	if err := l.executor().DecideApproval(t.Context(), early); err != nil {
		t.Fatal(err)
	}
	first := l.decided()
	if len(first) != 1 || first[0].Refusal != api.RefusalNotPaused {
		t.Fatalf("the answers are %+v", first)
	}
	before := w.Get(t, ns, "rollout", "rollouts-demo").GetResourceVersion()
	// Sent again, the approval matches the pause, and the executor refuses it as before.
	if err := l.executor().DecideApproval(t.Context(), sent(t, ns, "1")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, l.decided()); diff != "" {
		t.Errorf("the answers (-first +again):\n%s", diff)
	}
	if after := w.Get(t, ns, "rollout", "rollouts-demo").GetResourceVersion(); after != before {
		t.Error("the Rollout was written")
	}
	// The same id from another sender is another event.
	other := sent(t, ns, "1")
	other.Principal = "qa"
	if err := l.executor().DecideApproval(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if got := l.decided(); len(got) != 2 || !got[1].Accepted {
		t.Errorf("the answers are %+v", got)
	}
}

func TestWithoutTheAPIServerNothingIsAnswered(t *testing.T) {
	t.Parallel()
	_, ns, _ := pausedRelease(t)
	l := newLab(t)
	config := shared.As(api.DefaultExecutor)
	config.Wrap(func(http.RoundTripper) http.RoundTripper {
		return roundTripper(func(*http.Request) (*http.Response, error) { return nil, http.ErrServerClosed })
	})
	if err := l.executorAs(config).DecideApproval(t.Context(), sent(t, ns, "1")); err == nil {
		t.Error("it says that it has decided")
	}
	if got := l.decided(); len(got) > 0 {
		t.Errorf("the answers are %+v", got)
	}
}
