// Package nats_test loads the configuration of this directory into a real server, and tests the permissions of each user.
package nats_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sluice.dev/sluice/deploy/nats/trial"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
)

var checkout = queue.Key{Cluster: "default", Namespace: "shop", Name: "checkout"}

func approval(t *testing.T, key queue.Key, id string) event.Event {
	t.Helper()
	e := cloudevents.New()
	e.SetType(event.TypeApproval)
	e.SetID(id)
	e.SetSource("/ci/shop")
	e.SetSubject("namespaces/" + key.Namespace + "/rollouts/" + key.Name)
	if err := e.SetData("application/json", map[string]string{"decision": "approve", "rolloutID": "v1"}); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAPipelineSendsUnderItsOwnNameAndHearsTheDecision(t *testing.T) {
	t.Parallel()
	s := trial.Start(t)
	executor := part(t, s, "executor")
	decide(t, executor)
	question, err := pipeline(t, s, "ci-shop").RequestApproval(t.Context(), checkout, "ci-shop", approval(t, checkout, "1"))
	if err != nil {
		t.Fatal(err)
	}
	defer question.Close()
	answer, err := question.WaitForDecision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d, err := event.ParseDecided(answer)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Accepted || d.Principal != "ci-shop" || d.ApprovalID != "1" {
		t.Errorf("the decision is %+v", d)
	}
}

// With three servers a pipeline gets its decision, although one server dies before the decision.
func TestThreeServersDecideWithTwoLeft(t *testing.T) {
	t.Parallel()
	servers := trial.StartThree(t)
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.ClientURL())
	}
	executor := partOf(t, strings.Join(urls[1:], ","), "executor", 3)
	ci, err := queue.ConnectExisting(t.Context(), queue.Options{URL: strings.Join(urls, ","), User: "ci-shop", Password: trial.Password("ci-shop"), InboxPrefix: "_INBOX_ci-shop"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ci.Close)
	question, err := ci.RequestApproval(t.Context(), checkout, "ci-shop", approval(t, checkout, "1"))
	if err != nil {
		t.Fatal(err)
	}
	defer question.Close()
	servers[0].Shutdown()
	began := time.Now()
	decide(t, executor)
	answer, err := question.WaitForDecision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d, err := event.ParseDecided(answer); err != nil || !d.Accepted {
		t.Errorf("%v: %+v", err, d)
	}
	t.Logf("decided %s after the server died", time.Since(began))
}

// decide answers approvals instead of an executor, with an executor's permissions.
func decide(t *testing.T, q *queue.Queue) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		done <- q.ConsumeApprovals(t.Context(), queue.ApprovalOptions{Cluster: "default", Workers: 1, Handler: accept(q)})
	}()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestWhatAPipelineMayNotDoIsForbiddenAndSaidClearly(t *testing.T) {
	t.Parallel()
	s := trial.Start(t)
	part(t, s, "watcher")
	ci := pipeline(t, s, "ci-shop")
	other := checkout
	other.Namespace = "bank"
	elsewhere := checkout
	elsewhere.Cluster = "other"
	for name, c := range map[string]struct {
		key       queue.Key
		principal string
	}{
		"under the name of another":           {checkout, "alice"},
		"under a name that begins alike":      {checkout, "ci-shop2"},
		"about another namespace":             {other, "ci-shop"},
		"about another cluster":               {elsewhere, "ci-shop"},
		"under the name of a Kubernetes user": {checkout, "system:serviceaccount:shop:ci"},
	} {
		t.Run(name, func(t *testing.T) {
			err := ci.SendApproval(t.Context(), c.key, c.principal, approval(t, c.key, name))
			if !errors.Is(err, queue.ErrDenied) || !strings.Contains(err.Error(), c.key.ApprovalSubject(c.principal)) {
				t.Errorf("the error is: %v", err)
			}
		})
	}
}

func TestAPipelineCanTouchNothingElse(t *testing.T) {
	t.Parallel()
	s := trial.Start(t)
	executor := part(t, s, "executor")
	admin := connect(t, s, "admin")
	stored := snapshot(t, admin, executor)
	ci := connect(t, s, "ci-shop")
	ci.mayNotPublish(
		"sluice.work.default.shop.checkout", "sluice.timer.default.shop.checkout", "sluice.measure.default.shop.checkout", "sluice.tick.default.shop.checkout",
		"$KV.sluice_analysis.x", "sluice.event.default.shop.checkout", "sluice.dlq.default.shop.checkout",
		"sluice.approval.default.shop.checkout.alice", "sluice.approval.default.shop.checkout.memory.x", "sluice.approval.default.shop.checkout.ci-shop.x",
		"sluice.approval.default.bank.checkout.ci-shop", "$KV.sluice_lease.x",
		"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.DELETE.SLUICE_WORK", "$JS.API.STREAM.PURGE.SLUICE_EVENTS", "$JS.API.STREAM.CREATE.MINE",
		"$JS.API.STREAM.UPDATE.SLUICE_WORK", "$JS.API.STREAM.MSG.GET.SLUICE_APPROVALS", "$JS.API.STREAM.MSG.DELETE.SLUICE_EVENTS",
		"$JS.API.DIRECT.GET.SLUICE_APPROVALS", "$JS.API.CONSUMER.CREATE.SLUICE_EVENTS", "$JS.API.CONSUMER.DELETE.SLUICE_WORK.executor",
		"_INBOX.x", "_INBOX_ci-other.x", "$SYS.REQ.SERVER.PING", "anything",
	)
	ci.mayNotSubscribe(
		">", "sluice.>", "sluice.approval.>", "sluice.work.>", "sluice.event.>", "sluice.event.default.bank.*", "sluice.event.default.*.*", "_INBOX.>", "_INBOX_ci-other.>", "$JS.>", "$SYS.>",
	)
	if diff := cmp.Diff(stored, snapshot(t, admin, nil)); diff != "" {
		t.Errorf("the streams have changed:\n%s", diff)
	}
}

// The server sends its answer to any reply subject of a sender, regardless of the sender's own permissions. In the account of the streams that bypasses
// permissions: streams would store answers as hints, as events, and as decisions of other users.
func TestWhereAPipelineHasTheAnswerSentItDoesNoHarm(t *testing.T) {
	t.Parallel()
	s := trial.Start(t)
	executor := part(t, s, "executor")
	admin := connect(t, s, "admin")
	stored := snapshot(t, admin, executor)
	ci := connect(t, s, "ci-shop")
	question := func(reply string) {
		m := nats.NewMsg("sluice.approval.default.shop.checkout.ci-shop")
		m.Reply = reply
		if err := ci.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 { // so that the sequence in the answer reaches the sequences of other streams
		question("")
	}
	replies := []string{
		"$JS.API.STREAM.MSG.DELETE.SLUICE_EVENTS", "$JS.API.STREAM.PURGE.SLUICE_EVENTS", "$JS.API.STREAM.PURGE.SLUICE_WORK", "$JS.API.STREAM.DELETE.SLUICE_EVENTS",
		"sluice.event.default.shop.checkout", "sluice.approval.default.shop.checkout.alice", "sluice.timer.default.shop.checkout", "sluice.work.default.bank.checkout",
	}
	for _, reply := range replies {
		question(reply)
	}
	if err := ci.forbidden(); err != nil {
		t.Fatalf("the server forbids it anyway, so this test proves nothing: %v", err)
	}
	// NATS keeps the order: the answer to this message follows the answers to the earlier ones.
	if err := pipeline(t, s, "ci-shop").SendApproval(t.Context(), checkout, "ci-shop", approval(t, checkout, "last")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(stored, snapshot(t, admin, nil)); diff != "" {
		t.Errorf("the streams have changed:\n%s", diff)
	}
	js, err := jetstream.New(admin.Conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), queue.StreamApprovals)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := stream.CachedInfo().State.Msgs, uint64(5+len(replies)+1); got != want {
		t.Errorf("%d decisions are stored, %d were sent", got, want)
	}
}

// snapshot returns the number of messages in each stream except approvals; with a queue, it first stores an event and a hint.
func snapshot(t *testing.T, admin *client, q *queue.Queue) map[string]uint64 {
	t.Helper()
	if q != nil {
		if err := q.PublishHint(t.Context(), checkout); err != nil {
			t.Fatal(err)
		}
		e, err := event.NewChange(event.Rollout{Cluster: "default", Namespace: "shop", Name: "checkout", UID: "u"}, event.Change{Noun: "step", Verb: "paused", Seq: 1, At: time.Unix(1, 0)})
		if err != nil {
			t.Fatal(err)
		}
		if err := q.PublishEvent(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	js, err := jetstream.New(admin.Conn)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]uint64{}
	list := js.ListStreams(t.Context())
	for info := range list.Info() {
		if info.Config.Name != queue.StreamApprovals {
			counts[info.Config.Name] = info.State.LastSeq*1000 + info.State.Msgs
		}
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return counts
}
