// Package nats_test loads the configuration of this directory into a real server, and tests the permissions of each user.
package nats_test

import (
	"context"
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
	decideAbout(t, q, queue.TaskRelease, accept(q))
}

func decideAbout(t *testing.T, q *queue.Queue, task string, handler queue.ApprovalHandler) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		done <- q.ConsumeApprovals(t.Context(), queue.ApprovalOptions{Cluster: "default", Task: task, Workers: 1, Handler: handler})
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
			if !errors.Is(err, queue.ErrDenied) || !strings.Contains(err.Error(), c.key.RequestSubject(event.VerbApprove, c.principal)) {
				t.Errorf("the error is: %v", err)
			}
		})
	}
}

// fleet is the FleetRollout of the same name as the Rollout. A pipeline needs permissions of its own for it.
var fleet = queue.Key{Cluster: "default", Namespace: "shop", Name: "checkout", Task: queue.TaskFleet}

// fleetEvent returns an event about a FleetRollout, with this type and data.
func fleetEvent(t *testing.T, key queue.Key, id, kind string, data map[string]any) event.Event {
	t.Helper()
	e := approval(t, key, id)
	e.SetType(kind)
	e.SetSubject("namespaces/" + key.Namespace + "/fleetrollouts/" + key.Name)
	if err := e.SetData("application/json", data); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAPipelineOfAFleetReleasesAndApproves(t *testing.T) {
	t.Parallel()
	s := trial.Start(t)
	executor := part(t, s, "executor")
	verbs := make(chan string, 2)
	decideAbout(t, executor, queue.TaskFleet, func(ctx context.Context, a queue.Approval) error {
		verbs <- a.Verb
		return accept(executor)(ctx, a)
	})
	ci := pipeline(t, s, "ci-shop-fleet")
	for id, e := range map[string]event.Event{
		event.VerbRelease: fleetEvent(t, fleet, "1", event.TypeFleetRelease, map[string]any{"version": "v2"}),
		event.VerbApprove: fleetEvent(t, fleet, "2", event.TypeApproval, map[string]any{"decision": "approve", "uid": "u", "epoch": 7, "wave": "canary"}),
	} {
		question, err := ci.RequestApproval(t.Context(), fleet, "ci-shop-fleet", e)
		if err != nil {
			t.Fatal(err)
		}
		defer question.Close()
		answer, err := question.WaitForDecision(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d, err := event.ParseDecided(answer); err != nil || !d.Accepted || d.Principal != "ci-shop-fleet" {
			t.Errorf("%s: %v: %+v", id, err, d)
		}
		if verb := <-verbs; verb != id {
			t.Errorf("NATS has allowed %q, want %q", verb, id)
		}
	}
}

// A user who may approve Rollouts can send nothing about FleetRollouts. A user for FleetRollouts can send nothing about Rollouts. A user who may release cannot name
// another FleetPlan.
func TestWhatAPipelineOfAFleetMayNotDo(t *testing.T) {
	t.Parallel()
	s := trial.Start(t)
	part(t, s, "watcher")
	release := func(key queue.Key) event.Event {
		return fleetEvent(t, key, "1", event.TypeFleetRelease, map[string]any{"version": "v2"})
	}
	elsewhere := fleet
	elsewhere.Namespace = "bank"
	for name, c := range map[string]struct {
		user, principal string
		key             queue.Key
		e               event.Event
	}{
		"a pipeline of Rollouts":       {"ci-shop", "ci-shop", fleet, release(fleet)},
		"a pipeline of fleets":         {"ci-shop-fleet", "ci-shop-fleet", checkout, approval(t, checkout, "1")},
		"under the name of another":    {"ci-shop-fleet", "alice", fleet, release(fleet)},
		"about another namespace":      {"ci-shop-fleet", "ci-shop-fleet", elsewhere, release(elsewhere)},
		"with a plan that it may pick": {"ci-shop-fleet", "ci-shop-fleet", fleet, fleetEvent(t, fleet, "1", event.TypeFleetRelease, map[string]any{"version": "v2", "plan": "hotfix"})},
	} {
		t.Run(name, func(t *testing.T) {
			if err := pipeline(t, s, c.user).SendApproval(t.Context(), c.key, c.principal, c.e); !errors.Is(err, queue.ErrDenied) {
				t.Errorf("the error is: %v", err)
			}
		})
	}
	ci := connect(t, s, "ci-shop-fleet")
	ci.mayNotPublish("sluice.fleet.event.default.shop.checkout", "sluice.fleet.request.default.shop.checkout.use.ci-shop-fleet", "sluice.fleet.request.default.shop.checkout.release.ci-shop",
		"sluice.approval.default.shop.checkout.memory.x", "sluice.fleet.down.eu1.shop.checkout", "sluice.fleet.up.eu1.shop.checkout", "sluice.fleet.work.default.shop.checkout")
	ci.mayNotSubscribe("sluice.fleet.>", "sluice.fleet.request.>", "sluice.fleet.event.default.bank.*", "sluice.event.default.shop.*", "_INBOX_ci-shop.>", "sluice.fleet.down.>")
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
