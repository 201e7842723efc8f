package nats_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sluice.dev/sluice/deploy/nats/trial"
	"sluice.dev/sluice/pkg/fleetmessage"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/test/natsdir"
)

// The fleet of these tests has the clusters eu1 and eu2, and both run this Rollout.
var (
	clusters = []string{"eu1", "eu2"}
	shop     = fleetmessage.Name{Namespace: "shop", Name: "checkout"}
)

// hub is the NATS of a fleet's hub, with all streams.
type hub struct {
	url             string
	executor, admin login
}

// onEachHub runs a test on the server of deploy/nats, on the one of the installation and on the embedded one. All must give clusters the same permissions.
func onEachHub(t *testing.T, test func(t *testing.T, h *hub)) {
	t.Parallel()
	t.Run("deploy/nats", func(t *testing.T) {
		t.Parallel()
		h := shippedHub(trial.Start(t, clusters...))
		h.makeStreams(t)
		test(t, h)
	})
	t.Run("installed", func(t *testing.T) {
		t.Parallel()
		all := login{trial.InstalledUser, trial.Password(trial.InstalledUser)}
		h := &hub{url: trial.StartInstalled(t, clusters...).ClientURL(), executor: all, admin: all}
		h.makeStreams(t)
		test(t, h)
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		members := map[string]string{}
		for _, cluster := range clusters {
			members[cluster] = trial.Password(cluster)
		}
		s, err := embedded.Start(embedded.Options{Dir: natsdir.ForTest(t), Members: members})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		all := login{s.User(), s.Password()}
		h := &hub{url: s.URL(), executor: all, admin: all}
		h.makeStreams(t)
		test(t, h)
	})
}

func shippedHub(s *server.Server) *hub {
	return &hub{url: s.ClientURL(), executor: login{"executor", trial.Password("executor")}, admin: login{"admin", trial.Password("admin")}}
}

func (h *hub) makeStreams(t *testing.T) {
	t.Helper()
	h.queue(t).Close()
}

// queue connects as an executor of the hub does.
func (h *hub) queue(t *testing.T) *queue.Queue {
	t.Helper()
	q := undisturbedQueue(t, queue.Options{URL: h.url, User: h.executor.user, Password: h.executor.password})
	if err := q.CreateHubStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	return q
}

// member connects as a cluster does.
func (h *hub) member(t *testing.T, cluster string) *client {
	t.Helper()
	return connectAs(t, h.url, login{cluster, trial.Password(cluster)}, "_INBOX_"+cluster)
}

// jetStream connects as an executor does.
func (h *hub) jetStream(t *testing.T) (*client, jetstream.JetStream) {
	t.Helper()
	c := connectAs(t, h.url, h.executor, "_INBOX")
	js, err := jetstream.New(c.Conn)
	if err != nil {
		t.Fatal(err)
	}
	return c, js
}

// order publishes an order of the hub, and returns its sequence.
func order(t *testing.T, js jetstream.JetStream, cluster, text string) uint64 {
	t.Helper()
	ack, err := js.Publish(t.Context(), fleetmessage.OrderSubject(cluster, shop), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return ack.Sequence
}

// ack is the server's answer to a publisher.
type ack struct {
	Stream string              `json:"stream"`
	Seq    uint64              `json:"seq"`
	Error  *jetstream.APIError `json:"error"`
}

// answer publishes the answer of a cluster with these headers, and returns what the server says.
func (c *client) answer(cluster, text string, headers nats.Header) ack {
	c.t.Helper()
	m := c.request(&nats.Msg{Subject: fleetmessage.AnswerSubject(cluster, shop), Data: []byte(text), Header: headers})
	var a ack
	if err := json.Unmarshal(m.Data, &a); err != nil {
		c.t.Fatalf("the server answers %q: %v", m.Data, err)
	}
	return a
}

// stored publishes an answer that the server must store, and returns its sequence.
func (c *client) stored(cluster, text string) uint64 {
	c.t.Helper()
	a := c.answer(cluster, text, nil)
	if a.Error != nil || a.Stream != queue.StreamFleetUp {
		c.t.Fatalf("the server does not store an answer: %+v", a)
	}
	return a.Seq
}

// afterSequence is the header of a message that follows this one of its subject.
func afterSequence(seq uint64) nats.Header {
	return nats.Header{jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(seq, 10)}}
}

// last asks for the last message of a subject.
func (c *client) last(stream, subject string, body string) *nats.Msg {
	c.t.Helper()
	return c.request(&nats.Msg{Subject: lastSubject(stream, subject), Data: []byte(body)})
}

func lastSubject(stream, subject string) string {
	return "$JS.API.DIRECT.GET." + stream + "." + subject
}

func (c *client) request(m *nats.Msg) *nats.Msg {
	c.t.Helper()
	reply, err := c.RequestMsg(m, patience)
	if err != nil {
		c.t.Fatalf("request %s: %v", m.Subject, err)
	}
	return reply
}

// subscribe returns a subscription that the server has read.
func (c *client) subscribe(subject string) *nats.Subscription {
	c.t.Helper()
	sub, err := c.SubscribeSync(subject)
	if err == nil {
		err = c.FlushTimeout(patience)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return sub
}

// maySubscribe returns a subscription that the server allows. It is for users that may not do everything.
func (c *client) maySubscribe(subject string) *nats.Subscription {
	c.t.Helper()
	sub := c.subscribe(subject)
	if err := c.forbidden(); err != nil {
		c.t.Fatal(err)
	}
	return sub
}

// wantNext waits for the next message, which must be the given one.
func (c *client) wantNext(sub *nats.Subscription, subject, text string) {
	c.t.Helper()
	m, err := sub.NextMsg(patience)
	if err != nil {
		c.t.Fatalf("nothing comes on %s: %v", sub.Subject, err)
	}
	if m.Subject != subject || string(m.Data) != text {
		c.t.Errorf("%q comes on %s, want %q on %s", m.Data, m.Subject, text, subject)
	}
}

// wantSubjects compares the subjects of the messages that the server has sent until now to a subscription. Subjects of the server's own answers
// between accounts, which are unique, count as "_R_". Advisories about streams do not count: the server may send one late.
func (c *client) wantSubjects(sub *nats.Subscription, want ...string) {
	c.t.Helper()
	// The server answers this flush after everything that it has sent before.
	if err := c.FlushTimeout(patience); err != nil {
		c.t.Fatal(err)
	}
	waiting, _, err := sub.Pending()
	if err != nil {
		c.t.Fatal(err)
	}
	var got []string
	for range waiting {
		m, err := sub.NextMsg(patience)
		if err != nil {
			c.t.Fatal(err)
		}
		subject := m.Subject
		switch {
		case strings.HasPrefix(subject, "$JS.EVENT.ADVISORY."):
			continue
		case strings.HasPrefix(subject, "_R_."):
			subject = "_R_"
		}
		got = append(got, subject)
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		c.t.Errorf("subjects of the messages on %s (-want +got):\n%s", sub.Subject, diff)
	}
}
