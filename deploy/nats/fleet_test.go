package nats_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sluice.dev/sluice/deploy/nats/trial"
	"sluice.dev/sluice/pkg/fleetmessage"
	"sluice.dev/sluice/pkg/queue"
)

func TestAClusterAnswersTheHub(t *testing.T) {
	onEachHub(t, func(t *testing.T, h *hub) {
		eu1, subject := h.member(t, "eu1"), fleetmessage.AnswerSubject("eu1", shop)
		if m := eu1.last(queue.StreamFleetUp, subject, ""); m.Header.Get("Status") != "404" {
			t.Errorf("the last of no answers is %v %q", m.Header, m.Data)
		}
		first := eu1.answer("eu1", "first", afterSequence(0))
		if first.Error != nil || first.Seq == 0 || first.Stream != queue.StreamFleetUp {
			t.Fatalf("the first answer: %+v", first)
		}
		refused := eu1.answer("eu1", "lost", afterSequence(0))
		if refused.Error == nil || refused.Error.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence {
			t.Errorf("an answer that does not know the last one: %+v", refused)
		}
		second := eu1.answer("eu1", "second", afterSequence(first.Seq))
		if second.Error != nil {
			t.Fatalf("the second answer: %+v", second)
		}
		m := eu1.last(queue.StreamFleetUp, subject, "")
		if string(m.Data) != "second" || m.Header.Get(jetstream.SequenceHeader) != strconv.FormatUint(second.Seq, 10) {
			t.Errorf("the last answer is %v %q", m.Header, m.Data)
		}
		_, js := h.jetStream(t)
		readsAll(t, js, queue.StreamFleetUp, map[string]string{subject: "second"})
	})
}

// readsAll reads a stream as an executor of the hub does. It must have these messages and no others.
func readsAll(t *testing.T, js jetstream.JetStream, stream string, want map[string]string) {
	t.Helper()
	c, err := js.OrderedConsumer(t.Context(), stream, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for pending := uint64(1); pending > 0; {
		m, err := c.Next(jetstream.FetchMaxWait(patience))
		if err != nil {
			t.Fatal(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		got[m.Subject()], pending = string(m.Data()), meta.NumPending
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", stream, diff)
	}
}

func TestAClusterHearsItsOrdersAndReadsTheLastOne(t *testing.T) {
	onEachHub(t, func(t *testing.T, h *hub) {
		eu1, eu2 := h.member(t, "eu1"), h.member(t, "eu2")
		heard, other := eu1.maySubscribe("sluice.fleet.down.eu1.*.*"), eu2.maySubscribe("sluice.fleet.down.eu2.*.*")
		subject := fleetmessage.OrderSubject("eu1", shop)
		if m := eu1.last(queue.StreamFleetDown, subject, ""); m.Header.Get("Status") != "404" {
			t.Errorf("the last of no orders is %v %q", m.Header, m.Data)
		}
		_, js := h.jetStream(t)
		order(t, js, "eu1", "begin")
		seq := order(t, js, "eu1", "go on")
		eu1.wantNext(heard, subject, "begin")
		eu1.wantNext(heard, subject, "go on")
		m := eu1.last(queue.StreamFleetDown, subject, "")
		if string(m.Data) != "go on" || m.Header.Get(jetstream.SequenceHeader) != strconv.FormatUint(seq, 10) {
			t.Errorf("the last order is %v %q", m.Header, m.Data)
		}
		eu2.wantSubjects(other)
		readsAll(t, js, queue.StreamFleetDown, map[string]string{subject: "go on"})
	})
}

func TestAHeartbeatReachesEachExecutorOfTheHub(t *testing.T) {
	onEachHub(t, func(t *testing.T, h *hub) {
		first, _ := h.jetStream(t)
		second, _ := h.jetStream(t)
		one, two := first.subscribe("sluice.fleet.beat.*"), second.subscribe("sluice.fleet.beat.*")
		if err := h.member(t, "eu1").Publish(fleetmessage.BeatSubject("eu1"), []byte("alive")); err != nil {
			t.Fatal(err)
		}
		first.wantNext(one, "sluice.fleet.beat.eu1", "alive")
		second.wantNext(two, "sluice.fleet.beat.eu1", "alive")
	})
}

// A cluster connects to any server of the hub. The streams and the executor may be on other servers.
func TestAClusterReachesTheHubOverEachOfThreeServers(t *testing.T) {
	t.Parallel()
	names := []string{"eu1", "eu2", "eu3"}
	servers := trial.StartThree(t, names...)
	var members []*client
	var orders []*nats.Subscription
	for i, name := range names {
		c := connectAs(t, servers[i].ClientURL(), login{name, trial.Password(name)}, "_INBOX_"+name)
		members, orders = append(members, c), append(orders, c.maySubscribe(fleetmessage.OrderSubject(name, fleetmessage.Name{Namespace: "*", Name: "*"})))
		// The streams, which do not exist yet, would get the message too.
		waitForInterest(t, servers[0], fleetmessage.OrderSubject(name, shop))
	}
	h := shippedHub(servers[0])
	h.makeStreams(t)
	executor, js := h.jetStream(t)
	beats := executor.subscribe("sluice.fleet.beat.*")
	for i, name := range names {
		seq := members[i].stored(name, "done")
		m := members[i].last(queue.StreamFleetUp, fleetmessage.AnswerSubject(name, shop), "")
		if string(m.Data) != "done" || m.Header.Get(jetstream.SequenceHeader) != strconv.FormatUint(seq, 10) {
			t.Errorf("%s: the last answer is %v %q", name, m.Header, m.Data)
		}
		order(t, js, name, "begin")
		members[i].wantNext(orders[i], fleetmessage.OrderSubject(name, shop), "begin")
		waitForInterest(t, servers[i], fleetmessage.BeatSubject(name))
		if err := members[i].Publish(fleetmessage.BeatSubject(name), []byte("alive")); err != nil {
			t.Fatal(err)
		}
		executor.wantNext(beats, fleetmessage.BeatSubject(name), "alive")
	}
}

// waitForInterest waits until a server knows a subscription in the account of the streams. Servers tell each other of subscriptions.
func waitForInterest(t *testing.T, s *server.Server, subject string) {
	t.Helper()
	account, err := s.LookupAccount("SLUICE")
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !account.SubscriptionInterest(subject); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("a server never knows the subscription to %s", subject)
		}
	}
}

func TestAnExecutorOfAHubMayDoAllItsWork(t *testing.T) {
	t.Parallel()
	s := trial.Start(t, clusters...)
	release := queue.Key{Cluster: "default", Namespace: "shop", Name: "checkout", Task: queue.TaskFleet}
	q := shippedHub(s).queue(t)
	begged := connect(t, s, "admin").subscribe("sluice.idle.default.fleet")
	ctx, cancel := context.WithCancel(t.Context())
	done, runs := make(chan error, 1), make(chan queue.Key, 10)
	go func() {
		first := true
		done <- q.Consume(ctx, queue.ConsumeOptions{Cluster: "default", Task: queue.TaskFleet, Workers: 1, Handler: func(_ context.Context, k queue.Key) queue.Result {
			runs <- k
			if !first {
				return queue.Result{}
			}
			first = false
			return queue.Result{WakeAt: time.Now().Add(time.Second)}
		}})
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	if err := q.PublishHint(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"the hint", "the timer"} {
		select {
		case k := <-runs:
			if diff := cmp.Diff(release, k); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		case <-time.After(patience):
			t.Fatalf("%s leads to no run", what)
		}
	}
	if _, err := begged.NextMsg(patience); err != nil {
		t.Errorf("the executor does not say that it has free workers: %v", err)
	}
}

func TestAnExecutorOfAHubCannotSpeakForAClusterAndOthersNotForTheHub(t *testing.T) {
	t.Parallel()
	s := trial.Start(t, clusters...)
	executor := connect(t, s, "executor")
	executor.mayNotPublish("sluice.fleet.up.eu1.shop.checkout", "sluice.fleet.beat.eu1", "$JS.API.STREAM.PURGE.SLUICE_FLEET_UP", "$JS.API.STREAM.DELETE.SLUICE_FLEET_DOWN")
	executor.mayNotSubscribe("sluice.fleet.>", "sluice.fleet.up.>")
	for _, user := range []string{"watcher", "analyzer", "ci-shop"} {
		c := connect(t, s, user)
		c.mayNotPublish("sluice.fleet.down.eu1.shop.checkout", "sluice.fleet.up.eu1.shop.checkout", "sluice.fleet.beat.eu1")
		c.mayNotSubscribe("sluice.fleet.down.>", "sluice.fleet.up.>", "sluice.fleet.beat.*")
	}
}

// A copy of the example that still names another cluster would join two clusters.
func TestAServerDoesNotStartWithAClusterInTheAccountOfAnotherOne(t *testing.T) {
	t.Parallel()
	for _, forgotten := range []string{
		`subject: "sluice.fleet.up.eu2`, `subject: "sluice.fleet.beat.eu2`, `subject: "sluice.fleet.down.eu2`,
		`subject: "$JS.API.DIRECT.GET.SLUICE_FLEET_UP.sluice.fleet.up.eu2`, `subject: "$JS.API.DIRECT.GET.SLUICE_FLEET_DOWN.sluice.fleet.down.eu2`,
	} {
		t.Run(forgotten, func(t *testing.T) {
			dir := trial.Configuration(t, clusters...)
			path := filepath.Join(dir, "fleet.conf")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			wrong := strings.Replace(string(text), forgotten, strings.Replace(forgotten, "eu2", "eu1", 1), 1)
			if wrong == string(text) {
				t.Fatal("fleet.conf does not have this subject")
			}
			if err := os.WriteFile(path, []byte(wrong), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := server.ProcessConfigFile(filepath.Join(dir, "server.conf")); err == nil || !strings.Contains(err.Error(), "import not authorized") {
				t.Errorf("the error is: %v", err)
			}
		})
	}
}

// Without a fleet, the server of the installation works with the fleet.conf that it comes with.
func TestTheInstalledServerWorksWithoutAFleet(t *testing.T) {
	t.Parallel()
	s := trial.StartInstalled(t)
	q := undisturbedQueue(t, queue.Options{URL: s.ClientURL(), User: trial.InstalledUser, Password: trial.Password(trial.InstalledUser)})
	if err := q.CreateHubStreams(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := nats.Connect(s.ClientURL(), nats.UserInfo("eu1", trial.Password("eu1"))); err == nil {
		t.Error("a cluster gets in")
	}
}
