package nats_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sluice.dev/sluice/deploy/nats/trial"
	"sluice.dev/sluice/pkg/fleetmessage"
	"sluice.dev/sluice/pkg/queue"
)

// These tests attack the hub and the cluster eu2 with the password of eu1.

func TestAStolenClusterCanTouchNothingElse(t *testing.T) {
	onEachHub(t, func(t *testing.T, h *hub) {
		_, js := h.jetStream(t)
		order(t, js, "eu2", "begin")
		admin := connectAs(t, h.url, h.admin, "_INBOX")
		stored := snapshot(t, admin, nil)
		eu1 := h.member(t, "eu1")
		eu1.mayNotPublish(
			"sluice.fleet.up.eu2.shop.checkout", "sluice.fleet.up.eu1.shop", "sluice.fleet.up.eu1.shop.checkout.x", "sluice.fleet.up.eu11.shop.checkout",
			"sluice.fleet.down.eu1.shop.checkout", "sluice.fleet.down.eu2.shop.checkout", "sluice.fleet.beat.eu2", "sluice.fleet.beat.eu1.x",
			"sluice.fleet.work.default.shop.checkout", "sluice.fleet.timer.default.shop.checkout",
			"$JS.API.DIRECT.GET.SLUICE_FLEET_DOWN", "$JS.API.DIRECT.GET.SLUICE_FLEET_UP", "$JS.API.DIRECT.GET.SLUICE_FLEET_DOWN.sluice.fleet.down.eu1.>",
			"$JS.API.DIRECT.GET.SLUICE_FLEET_DOWN.sluice.fleet.down.eu2.shop.checkout", "$JS.API.DIRECT.GET.SLUICE_FLEET_UP.sluice.fleet.up.eu2.shop.checkout",
			"$JS.API.DIRECT.GET.SLUICE_FLEET_UP.sluice.fleet.down.eu1.shop.checkout", "$JS.API.DIRECT.GET.KV_sluice_lease.sluice.fleet.up.eu1.shop.checkout",
			"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.INFO.SLUICE_FLEET_UP", "$JS.API.STREAM.CREATE.MINE", "$JS.API.STREAM.UPDATE.SLUICE_FLEET_UP",
			"$JS.API.STREAM.DELETE.SLUICE_FLEET_UP", "$JS.API.STREAM.PURGE.SLUICE_FLEET_DOWN", "$JS.API.STREAM.MSG.GET.SLUICE_FLEET_DOWN",
			"$JS.API.STREAM.MSG.DELETE.SLUICE_FLEET_DOWN", "$JS.API.CONSUMER.CREATE.SLUICE_FLEET_DOWN.x", "$JS.API.CONSUMER.MSG.NEXT.SLUICE_FLEET_DOWN.x", "$JS.ACK.SLUICE_WORK.x",
			"sluice.work.default.shop.checkout", "sluice.timer.default.shop.checkout", "sluice.event.default.shop.checkout", "sluice.dlq.default.shop.checkout",
			"sluice.approval.default.shop.checkout.eu1", "sluice.approval.default.shop.checkout.memory.x", "$KV.sluice_lease.x", "sluice.idle.default",
			"_INBOX.x", "_INBOX_eu1.x", "_INBOX_eu2.x", "_R_.x.y", "$SYS.REQ.SERVER.PING", "$SYS.REQ.USER.INFO", "anything",
		)
		eu1.mayNotSubscribe(
			">", "sluice.>", "sluice.fleet.>", "sluice.fleet.down.>", "sluice.fleet.down.*.*.*", "sluice.fleet.down.eu2.*.*", "sluice.fleet.down.eu2.shop.checkout",
			"sluice.fleet.up.>", "sluice.fleet.up.eu1.*.*", "sluice.fleet.beat.*", "sluice.work.>", "sluice.event.>", "sluice.approval.>",
			"_INBOX.>", "_INBOX.*.*", "_INBOX_eu2.>", "_R_.>", "$JS.>", "$JS.API.>", "$KV.>", "$SYS.>",
		)
		if diff := cmp.Diff(stored, snapshot(t, admin, nil)); diff != "" {
			t.Errorf("the streams have changed:\n%s", diff)
		}
	})
}

// The server sends its answer to any reply subject of a sender, regardless of the sender's permissions. The answer to a request for the last message
// has a content of the sender's choice. In an account with other clusters it would reach them as an order.
func TestWhereAStolenClusterHasTheAnswerSentItDoesNoHarm(t *testing.T) {
	replies := []string{
		"sluice.fleet.down.eu2.shop.checkout", "sluice.fleet.up.eu2.shop.checkout", "sluice.fleet.beat.eu2", "_INBOX_eu2.x", "_INBOX.x", "sluice.fleet.down.*.*.*",
		"sluice.fleet.up.eu1.bank.checkout", "sluice.fleet.down.eu1.shop.checkout",
		"sluice.work.default.shop.checkout", "sluice.timer.default.shop.checkout", "sluice.fleet.work.default.shop.checkout", "sluice.event.default.shop.checkout",
		"sluice.approval.default.shop.checkout.alice", "$KV.sluice_lease.x", "$JS.API.STREAM.DELETE.SLUICE_FLEET_UP", "$JS.API.STREAM.PURGE.SLUICE_FLEET_DOWN",
		"$JS.API.STREAM.MSG.GET.SLUICE_FLEET_DOWN", lastSubject(queue.StreamFleetDown, "sluice.fleet.down.eu2.shop.checkout"),
	}
	onEachHub(t, func(t *testing.T, h *hub) {
		_, js := h.jetStream(t)
		order(t, js, "eu1", "begin")
		order(t, js, "eu2", "begin")
		eu1, eu2, admin := h.member(t, "eu1"), h.member(t, "eu2"), connectAs(t, h.url, h.admin, "_INBOX")
		eu2.stored("eu2", "its answer")
		eu1.stored("eu1", "forged")
		orders, inbox := eu2.maySubscribe("sluice.fleet.down.eu2.*.*"), eu2.maySubscribe("_INBOX_eu2.>")
		stored := snapshot(t, admin, nil)
		all := admin.subscribe(">")

		sent := []string{
			fleetmessage.BeatSubject("eu1"), fleetmessage.AnswerSubject("eu1", shop),
			lastSubject(queue.StreamFleetUp, fleetmessage.AnswerSubject("eu1", shop)), lastSubject(queue.StreamFleetDown, fleetmessage.OrderSubject("eu1", shop)),
		}
		for _, reply := range replies {
			for _, subject := range sent {
				m := &nats.Msg{Subject: subject, Reply: reply}
				if subject == fleetmessage.AnswerSubject("eu1", shop) {
					m.Data = []byte("forged")
				}
				if err := eu1.PublishMsg(m); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := eu1.forbidden(); err != nil {
			t.Fatalf("the server forbids it anyway, so this test proves nothing: %v", err)
		}
		// Each stream keeps the order of its answers: these follow the answers to the earlier messages.
		eu1.last(queue.StreamFleetDown, fleetmessage.OrderSubject("eu1", shop), "")
		eu1.stored("eu1", "forged")
		eu2.wantSubjects(orders)
		eu2.wantSubjects(inbox)
		admin.wantSubjects(all, append(sent, "_R_")...)

		// Each message to the stream of answers has added one sequence to it. No other message has changed a stream.
		stored[queue.StreamFleetUp] += uint64(len(replies)+1) * 1000
		if diff := cmp.Diff(stored, snapshot(t, admin, nil)); diff != "" {
			t.Errorf("the streams have changed (-want +got):\n%s", diff)
		}
		readsAll(t, js, queue.StreamFleetUp, map[string]string{"sluice.fleet.up.eu1.shop.checkout": "forged", "sluice.fleet.up.eu2.shop.checkout": "its answer"})
		readsAll(t, js, queue.StreamFleetDown, map[string]string{"sluice.fleet.down.eu1.shop.checkout": "begin", "sluice.fleet.down.eu2.shop.checkout": "begin"})
	})
}

// Acknowledgements and subjects of the server itself would pass the border of an account.
func TestAStolenClusterCannotNameTheServersOwnSubjectsForTheAnswer(t *testing.T) {
	onEachHub(t, func(t *testing.T, h *hub) {
		eu1 := h.member(t, "eu1")
		for _, reply := range []string{"_R_.x.y", "$JS.ACK.SLUICE_WORK.executor-default.1.1.1.1.1"} {
			if err := eu1.PublishRequest(fleetmessage.AnswerSubject("eu1", shop), reply, nil); err != nil {
				t.Fatal(err)
			}
			if err := eu1.forbidden(); err == nil || !strings.Contains(err.Error(), reply) {
				t.Errorf("reply %s: the server says %v", reply, err)
			}
		}
		if seq := eu1.stored("eu1", "the first"); seq != 1 {
			t.Errorf("the sequence of the first answer is %d", seq)
		}
	})
}

func TestAStolenClusterReadsOnlyTheSubjectThatItNames(t *testing.T) {
	onEachHub(t, func(t *testing.T, h *hub) {
		_, js := h.jetStream(t)
		order(t, js, "eu2", "begin")
		order(t, js, "eu1", "begin")
		eu1 := h.member(t, "eu1")
		for _, body := range []string{
			`{"seq":1}`, `{"last_by_subj":"sluice.fleet.down.eu2.shop.checkout"}`, `{"next_by_subj":"sluice.fleet.down.>"}`, `{"multi_last":["sluice.fleet.down.>"]}`,
			`{"batch":9}`, `{"start_time":"2020-01-01T00:00:00Z"}`, `{"up_to_seq":9}`,
		} {
			if m := eu1.last(queue.StreamFleetDown, fleetmessage.OrderSubject("eu1", shop), body); m.Header.Get("Status") != "408" {
				t.Errorf("the answer to %s is %v %q", body, m.Header, m.Data)
			}
		}
	})
}

func TestAStolenClusterCannotChangeOtherAnswersByHeaders(t *testing.T) {
	onEachHub(t, func(t *testing.T, h *hub) {
		eu1, eu2 := h.member(t, "eu1"), h.member(t, "eu2")
		eu2.stored("eu2", "its answer")
		want := map[string]string{"sluice.fleet.up.eu2.shop.checkout": "its answer"}
		for name, headers := range map[string]nats.Header{
			"roll up the stream":      {jetstream.MsgRollup: {jetstream.MsgRollupAll}},
			"roll up the subject":     {jetstream.MsgRollup: {jetstream.MsgRollupSubject}},
			"a schedule":              {"Nats-Schedule": {"@at 2020-01-01T00:00:00Z"}, "Nats-Schedule-Target": {"sluice.fleet.up.eu2.shop.checkout"}},
			"a message that expires":  {"Nats-TTL": {"1s"}},
			"a batch":                 {"Nats-Batch-Id": {"x"}, "Nats-Batch-Sequence": {"1"}},
			"a counter":               {"Nats-Incr": {"1"}},
			"another expected stream": {jetstream.ExpectedStreamHeader: {queue.StreamFleetDown}},
		} {
			if a := eu1.answer("eu1", "x", headers); a.Error == nil {
				t.Errorf("%s: %+v", name, a)
			}
		}
		_, js := h.jetStream(t)
		readsAll(t, js, queue.StreamFleetUp, want)
	})
}

func TestAStolenClusterCannotHaveTracesSentElsewhere(t *testing.T) {
	onEachHub(t, func(t *testing.T, h *hub) {
		admin, eu1, eu2 := connectAs(t, h.url, h.admin, "_INBOX"), h.member(t, "eu1"), h.member(t, "eu2")
		orders, all := eu2.maySubscribe("sluice.fleet.down.eu2.*.*"), admin.subscribe(">")
		for _, to := range []string{"sluice.fleet.down.eu2.shop.checkout", "sluice.work.default.shop.checkout"} {
			m := nats.NewMsg(fleetmessage.BeatSubject("eu1"))
			m.Header.Set("Nats-Trace-Dest", to)
			if err := eu1.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
			if err := eu1.forbidden(); err == nil || !strings.Contains(err.Error(), to) {
				t.Errorf("a trace to %s: the server says %v", to, err)
			}
		}
		eu2.wantSubjects(orders)
		admin.wantSubjects(all)
	})
}

func TestAStolenClusterCannotSendLargeMessages(t *testing.T) {
	onEachHub(t, func(t *testing.T, h *hub) {
		const tooLarge = 10054
		eu1 := h.member(t, "eu1")
		eu1.stored("eu1", strings.Repeat("x", fleetmessage.MaxSize))
		if a := eu1.answer("eu1", strings.Repeat("x", 2*fleetmessage.MaxSize), nil); a.Error == nil || a.Error.ErrorCode != tooLarge {
			t.Errorf("a large answer: %+v", a)
		}
		large := make([]byte, 2*fleetmessage.MaxSize+1)
		if err := eu1.Publish(fleetmessage.BeatSubject("eu1"), large); !errors.Is(err, nats.ErrMaxPayload) {
			t.Errorf("a large heartbeat: %v", err)
		}
		// The check above is the client library's. A thief does not use it.
		if says := tell(t, h, "eu1", fmt.Sprintf("PUB sluice.fleet.beat.eu1 %d\r\n%s\r\n", len(large), large)); !strings.Contains(says, "Maximum Payload Violation") {
			t.Errorf("a large heartbeat without the client library: %s", says)
		}
	})
}

// tell sends a line of the protocol of NATS, and returns the error of the server.
func tell(t *testing.T, h *hub, cluster, line string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "CONNECT {\"user\":%q,\"pass\":%q,\"verbose\":false,\"pedantic\":false}\r\n%s", cluster, trial.Password(cluster), line); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "-ERR") {
			return lines.Text()
		}
	}
	return fmt.Sprintf("nothing: %v", lines.Err())
}
