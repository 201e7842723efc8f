package queue_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
)

var asked = queue.Key{Cluster: "default", Namespace: "shop", Name: "web.site"}

func approvalOf(t *testing.T, key queue.Key, source, id string) event.Event {
	t.Helper()
	e := cloudevents.New()
	e.SetType(event.TypeApproval)
	e.SetID(id)
	e.SetSource(source)
	e.SetSubject("namespaces/" + key.Namespace + "/rollouts/" + key.Name)
	if err := e.SetData("application/json", map[string]string{"decision": "approve", "rolloutID": "v1"}); err != nil {
		t.Fatal(err)
	}
	return e
}

func answerTo(t *testing.T, key queue.Key, principal string, e event.Event, message string) event.Event {
	t.Helper()
	d, err := event.NewDecided(event.Rollout{Cluster: key.Cluster, Namespace: key.Namespace, Name: key.Name},
		event.Decided{Accepted: true, Message: message, Principal: principal, ApprovalSource: e.Source(), ApprovalID: e.ID()}, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAnAnswerIsHeardAmongOthers(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	mine := approvalOf(t, asked, "/ci", "7")
	question, err := q.RequestApproval(t.Context(), asked, "ci", mine)
	if err != nil {
		t.Fatal(err)
	}
	defer question.Close()
	for _, e := range []event.Event{
		answerTo(t, asked, "other", mine, "to another sender"),
		answerTo(t, asked, "ci", approvalOf(t, asked, "/ci", "8"), "to another id"),
		answerTo(t, asked, "ci", approvalOf(t, asked, "/cd", "7"), "to another source"),
		answerTo(t, asked, "ci", mine, "to me"),
	} {
		if err := q.PublishEvent(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := question.WaitForDecision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d, err := event.ParseDecided(answer)
	if diff := cmp.Diff("to me", d.Message); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestAnAnswerThatWasMissedIsAskedForAgain(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	mine := approvalOf(t, asked, "/ci", "7")
	question, err := q.RequestApproval(t.Context(), asked, "ci", mine)
	if err != nil {
		t.Fatal(err)
	}
	defer question.Close()
	// The executor gets the question a second time, because the first answer was lost.
	executor, times := w.connect(), 0
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		done <- executor.ConsumeApprovals(ctx, queue.ApprovalOptions{Cluster: "default", Workers: 1, Handler: func(ctx context.Context, a queue.Approval) error {
			if times++; times == 1 {
				return nil
			}
			return executor.PublishEvent(ctx, answerTo(t, a.Key, a.Principal, a.Event, "again"))
		}})
	}()
	if _, err := question.WaitForDecision(t.Context()); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWithoutAnAnswerAQuestionIsUndecided(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	question, err := q.RequestApproval(t.Context(), asked, "ci", approvalOf(t, asked, "/ci", "7"))
	if err != nil {
		t.Fatal(err)
	}
	defer question.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := question.WaitForDecision(ctx); !errors.Is(err, queue.ErrUndecided) {
		t.Errorf("the error is %v", err)
	}
}

// NATS may have stored a message that it has not answered.
func TestADecisionThatNATSDoesNotAnswerIsUndecided(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	if err := w.admin.DeleteStream(t.Context(), queue.StreamApprovals); err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.Conn().SubscribeSync(asked.RequestSubject(event.VerbApprove, "ci")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := q.RequestApproval(ctx, asked, "ci", approvalOf(t, asked, "/ci", "7")); !errors.Is(err, queue.ErrUndecided) {
		t.Errorf("the error is %v", err)
	}
}

// onRefusal is a log that calls back when NATS has refused a decision.
type onRefusal func()

func (f onRefusal) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("trying on")) {
		f()
	}
	return len(line), nil
}

func TestADecisionThatNATSRefusesIsNotUndecided(t *testing.T) {
	w := aWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	q, err := queue.ConnectExisting(ctx, queue.Options{URL: w.server.URL(), User: w.opts.User, Password: w.opts.Password, Logger: slog.New(slog.NewTextHandler(onRefusal(cancel), nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if _, err := q.RequestApproval(ctx, asked, "ci", approvalOf(t, asked, "/ci", "7")); errors.Is(err, queue.ErrUndecided) || err == nil || !strings.Contains(err.Error(), "the streams of Sluice are not on this NATS") {
		t.Errorf("the error is %v", err)
	}
}

func TestADecisionIsSentUntilNATSTakesIt(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	w.server.Close()
	sent := make(chan error, 1)
	go func() { sent <- q.SendApproval(t.Context(), asked, "ci", approvalOf(t, asked, "/ci", "7")) }()
	w.start()
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	stream, err := w.admin.Stream(t.Context(), queue.StreamApprovals)
	if err != nil {
		t.Fatal(err)
	}
	if stream.CachedInfo().State.Msgs == 0 {
		t.Error("it is not stored")
	}
}

func TestWhatIsNoDecisionIsNotSent(t *testing.T) {
	w := aWorld(t)
	q := w.connect()
	other := asked
	other.Name = "other"
	for name, send := range map[string]func() error{
		"about another Rollout": func() error { return q.SendApproval(t.Context(), asked, "ci", approvalOf(t, other, "/ci", "7")) },
		"without a principal":   func() error { return q.SendApproval(t.Context(), asked, "", approvalOf(t, asked, "/ci", "7")) },
		"asked": func() error {
			_, err := q.RequestApproval(t.Context(), asked, "ci", event.Event{})
			return err
		},
	} {
		if err := send(); !errors.Is(err, queue.ErrBadApproval) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
