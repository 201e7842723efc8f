package fleetlink

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleetmessage"
)

// A report of a cluster that has taken in permit 2 of epoch 5.
func aReport(state api.FleetReportState) api.FleetReport {
	return api.FleetReport{Epoch: 5, Seq: 2, State: state, Template: api.FleetVersion{Version: "v2", Revision: "h2"}, CanGoBack: true}
}

func TestTheHubOpensWhatAClusterReports(t *testing.T) {
	h := aHub(t)
	eu1 := h.joined("eu1", keyPair(t))
	before := time.Now()
	eu1.reports(checkout, aReport(api.FleetReportHeld))
	first := eu1.wantAnswer(checkout, aReport(api.FleetReportHeld), 0)
	if first.Version != "v0.3.0" || first.Time.Before(before.Truncate(time.Microsecond)) || first.Sent != first.Time.UnixMicro() {
		t.Errorf("it was sent by %s at %s with the number %d", first.Version, first.Time, first.Sent)
	}
	eu1.reports(checkout, aReport(api.FleetReportProgressing))
	second := eu1.wantAnswer(checkout, aReport(api.FleetReportProgressing), first.Sent+1)
	if second.Sent <= first.Sent {
		t.Errorf("the second answer has the number %d, and the first one %d", second.Sent, first.Sent)
	}
}

func TestAnAnswerIsLaterThanTheLastOneByAnyClock(t *testing.T) {
	h := aHub(t)
	key := keyPair(t)
	ahead := h.joined("eu1", key, func(o *Options) { o.Clock = func() time.Time { return time.Now().Add(time.Hour) } })
	ahead.reports(checkout, aReport(api.FleetReportHeld))
	first := ahead.wantAnswer(checkout, aReport(api.FleetReportHeld), 0)
	ahead.stop()
	behind := h.joined("eu1", key)
	behind.reports(checkout, aReport(api.FleetReportProgressing))
	if second := behind.wantAnswer(checkout, aReport(api.FleetReportProgressing), first.Sent+1); second.Sent != first.Sent+1 {
		t.Errorf("the numbers are %d and %d", first.Sent, second.Sent)
	}
}

func TestNothingIsSaidTwice(t *testing.T) {
	h := aHub(t)
	key := keyPair(t)
	eu1 := h.joined("eu1", key)
	eu1.reports(checkout, aReport(api.FleetReportHeld))
	seq := h.state("eu1", checkout).Seq
	eu1.wantSent(1)
	for range 3 {
		eu1.Report(checkout, governor, aReport(api.FleetReportHeld), eu1.Generation(checkout))
	}
	eu1.reports(pay, aReport(api.FleetReportIdle))
	eu1.wantSent(2)
	if got := h.state("eu1", checkout).Seq; got != seq {
		t.Errorf("the sequence is %d after %d", got, seq)
	}
	// The same answer waits while it is on its way, and is not sent then.
	eu1.Link.mu.Lock()
	eu1.rollouts[checkout].sending = true
	eu1.Link.mu.Unlock()
	eu1.Report(checkout, governor, aReport(api.FleetReportHeld), eu1.Generation(checkout))
	eu1.settled(checkout)
	eu1.wantSent(2)
	eu1.stop()

	// A process that starts reads what the one before has said.
	next := h.join("eu1", key)
	next.Report(checkout, governor, aReport(api.FleetReportHeld), next.Generation(checkout))
	next.knows(checkout)
	next.reports(pay, aReport(api.FleetReportProgressing))
	next.wantSent(1)
	if got := h.state("eu1", checkout).Seq; got != seq {
		t.Errorf("after a restart the sequence is %d after %d", got, seq)
	}
}

// A cluster that was built again has the name and the key of the one before, and another UID.
func TestAnAnswerOfTheClusterBeforeIsReplaced(t *testing.T) {
	h := aHub(t)
	key := keyPair(t)
	before := h.joined("eu1", key, func(o *Options) { o.Member.UID = "uid-of-the-cluster-before" })
	before.reports(checkout, aReport(api.FleetReportIdle))
	before.stop()
	now := h.joined("eu1", key)
	now.reports(checkout, aReport(api.FleetReportIdle))
	now.wantAnswer(checkout, aReport(api.FleetReportIdle), 0)
}

func TestAnAnswerByTheKeyBeforeIsReplaced(t *testing.T) {
	h := aHub(t)
	before := h.joined("eu1", keyPair(t))
	before.reports(checkout, aReport(api.FleetReportIdle))
	before.stop()
	now := h.joined("eu1", keyPair(t))
	now.reports(checkout, aReport(api.FleetReportIdle))
	now.wantAnswer(checkout, aReport(api.FleetReportIdle), 0)
}

func TestAReportArrivesAfterAnOutage(t *testing.T) {
	h := aHub(t)
	eu1 := h.joined("eu1", keyPair(t))
	eu1.reports(checkout, aReport(api.FleetReportHeld))
	first := eu1.wantAnswer(checkout, aReport(api.FleetReportHeld), 0)
	h.restart(false, func() {
		eu1.forget()
		// The executor goes on, and no report waits for the hub.
		eu1.Report(checkout, governor, aReport(api.FleetReportProgressing), eu1.Generation(checkout))
		eu1.Report(pay, api.FleetReference(pay), aReport(api.FleetReportIdle), eu1.Generation(pay))
		eu1.Report(checkout, governor, aReport(api.FleetReportCompleted), eu1.Generation(checkout))
		if _, _, refused := eu1.Order(governed(checkout)); refused != "" {
			t.Errorf("without a hub the order is refused: %s", refused)
		}
	})
	eu1.runs(checkout, func() { eu1.Report(checkout, governor, aReport(api.FleetReportCompleted), eu1.Generation(checkout)) })
	eu1.wantAnswer(checkout, aReport(api.FleetReportCompleted), first.Sent+1)
}

func TestAClusterStartsWithoutItsHub(t *testing.T) {
	h := aHub(t)
	var eu1 *cluster
	h.restart(false, func() {
		eu1 = h.join("eu1", keyPair(t))
		eu1.Report(checkout, governor, aReport(api.FleetReportIdle), eu1.Generation(checkout))
	})
	eu1.reports(checkout, aReport(api.FleetReportIdle))
	eu1.wantAnswer(checkout, aReport(api.FleetReportIdle), 0)
}

func TestAnOrderThatCameWhileAClusterWasCutOffIsReadAfterwards(t *testing.T) {
	h := aHub(t)
	h.way = aWay(t, h.opts.Port)
	eu1 := h.joined("eu1", keyPair(t))
	h.way.cut()
	eu1.forget()
	h.give(anOrder("eu1"), h.key)
	eu1.Link.mu.Lock()
	eu1.rollouts[checkout].stale = false // as for an order that the link has read before
	eu1.Link.mu.Unlock()
	h.way.mend()
	eu1.wantHint(checkout)
	if got, _, refused := eu1.Order(governed(checkout)); !cmp.Equal(permit(5, 2), got) || refused != "" {
		t.Errorf("the permit is %+v, refused %q", got, refused)
	}
}

// Two executors of a cluster have seen different states of a Rollout. The one that has seen the older one publishes last.
func TestAnAnswerIsNotPublishedOverOneThatItsProcessDoesNotKnow(t *testing.T) {
	h := aHub(t)
	key := keyPair(t)
	fast, slow := h.joined("eu1", key), h.joined("eu1", key)
	fast.reports(checkout, aReport(api.FleetReportProgressing))
	slow.Report(checkout, governor, aReport(api.FleetReportHeld), slow.Generation(checkout))
	slow.wantHint(checkout)
	fast.wantAnswer(checkout, aReport(api.FleetReportProgressing), 0)
	slow.wantSent(0)
	if n := slow.failures(); n != 1 {
		t.Errorf("the process that does not know it has failed %d times", n)
	}
	// It has looked again, and says the same.
	slow.Report(checkout, governor, aReport(api.FleetReportProgressing), slow.Generation(checkout))
	slow.reports(checkout, aReport(api.FleetReportCompleted))
	slow.wantSent(1)
	fast.wantAnswer(checkout, aReport(api.FleetReportCompleted), 0)
	// Now the other process has the older state.
	fast.Report(checkout, governor, aReport(api.FleetReportHeld), fast.Generation(checkout))
	fast.wantHint(checkout)
	fast.wantAnswer(checkout, aReport(api.FleetReportCompleted), 0)
}

// An executor looks at a Rollout. Then its process reads what another one has answered meanwhile, and then the executor reports what it saw.
func TestAReportFromBeforeAnAnswerOfAnotherProcessDoesNotCount(t *testing.T) {
	h := aHub(t)
	key := keyPair(t)
	fast, slow := h.joined("eu1", key), h.joined("eu1", key)
	looked := slow.Generation(checkout)
	fast.reports(checkout, aReport(api.FleetReportCompleted))
	slow.reread()
	slow.knows(checkout)
	slow.Report(checkout, governor, aReport(api.FleetReportProgressing), looked)
	slow.wantHint(checkout)
	slow.wantSent(0)
	fast.wantAnswer(checkout, aReport(api.FleetReportCompleted), 0)
}

func TestAHubThatHasLostItsStreamsGetsTheAnswersAgain(t *testing.T) {
	h := aHub(t)
	eu1 := h.joined("eu1", keyPair(t))
	eu1.reports(pay, aReport(api.FleetReportIdle))
	eu1.reports(checkout, aReport(api.FleetReportCompleted))
	first := eu1.wantAnswer(checkout, aReport(api.FleetReportCompleted), 0)
	lost := h.state("eu1", checkout)
	h.restart(true, eu1.forget)
	reports := map[types.NamespacedName]api.FleetReport{checkout: aReport(api.FleetReportCompleted), pay: aReport(api.FleetReportIdle)}
	for range reports {
		hint := receive(t, "a hint", eu1.hints)
		name := types.NamespacedName{Namespace: hint.Namespace, Name: hint.Name}
		eu1.Report(name, api.FleetReference(name), reports[name], eu1.Generation(name))
	}
	eu1.wantSent(4)
	h.until("the hub has the new answers", func() error {
		if a, b := h.state("eu1", checkout), h.state("eu1", pay); bytes.Equal(a.Data, lost.Data) || a.Seq == 0 || b.Seq == 0 {
			return errors.New("it has not")
		}
		return nil
	})
	eu1.wantAnswer(checkout, aReport(api.FleetReportCompleted), first.Sent+1)
	eu1.wantAnswer(pay, aReport(api.FleetReportIdle), 0)
}

// A message that nothing can send must not make the executor look again and again.
func TestAnAnswerThatCannotBeSentIsTriedWithoutTheExecutor(t *testing.T) {
	h := aHub(t)
	eu1 := h.joined("eu1", keyPair(t))
	eu1.reports(checkout, aReport(api.FleetReportHeld))
	large := aReport(api.FleetReportFailed)
	large.Message = strings.Repeat("x", fleetmessage.MaxSize)
	eu1.Report(checkout, governor, large, eu1.Generation(checkout))
	h.until("the link has tried some times", func() error {
		if eu1.failures() < 4 {
			return errors.New("it has not")
		}
		return nil
	})
	if len(eu1.hints) > 0 {
		t.Errorf("the executor must look again: %d hints", len(eu1.hints))
	}
	eu1.reports(checkout, aReport(api.FleetReportFailed))
	eu1.wantAnswer(checkout, aReport(api.FleetReportFailed), 0)
}

func TestWhichRolloutsTheHubHearsOfWhenTheyAreGone(t *testing.T) {
	h := aHub(t)
	eu1 := h.joined("eu1", keyPair(t))
	absent := func(name types.NamespacedName) func() { return func() { eu1.ReportAbsent(name) } }
	left := func(name types.NamespacedName, remembers bool) func() {
		return func() { eu1.ReportUngoverned(name, remembers) }
	}
	unknown := types.NamespacedName{Namespace: "shop", Name: "unknown"}
	for what, report := range map[string]func(){"is absent": absent(unknown), "has left its fleet": left(unknown, true)} {
		report()
		eu1.wantHint(unknown) // only now the link knows what the hub has heard
		report()
		h.until("the link has forgotten a Rollout that "+what, func() error {
			eu1.Link.mu.Lock()
			defer eu1.Link.mu.Unlock()
			if eu1.rollouts[unknown] != nil {
				return errors.New("it has not")
			}
			return nil
		})
	}
	eu1.ReportUngoverned(unknown, false) // it never had a fleet
	if err := eu1.exchangeOnce(t.Context(), unknown); err != nil {
		t.Error(err)
	}
	eu1.Link.mu.Lock()
	if eu1.rollouts[unknown] != nil {
		t.Error("the link asks the hub about a Rollout that it has forgotten, or never knew")
	}
	eu1.Link.mu.Unlock()

	// The hub knows one by an answer, and the other one by its own order.
	for _, known := range []types.NamespacedName{checkout, pay} {
		for state, report := range map[api.FleetReportState]func(){
			api.FleetReportAbsent: absent(known), api.FleetReportUngoverned: left(known, false),
		} {
			if known == pay && h.state("eu1", pay).Seq == 0 {
				order := anOrder("eu1")
				order.FleetRollout, order.Rollout = api.FleetReference(pay), fleetmessage.Name(pay)
				message, err := order.Seal(h.key)
				if err != nil {
					t.Fatal(err)
				}
				h.publish(fleetmessage.OrderSubject("eu1", order.Rollout), message)
				eu1.wantHint(pay)
			} else {
				eu1.reports(known, aReport(api.FleetReportIdle))
			}
			eu1.runs(known, report)
			answer := eu1.wantAnswer(known, api.FleetReport{State: state}, 0)
			if known == checkout && answer.FleetRollout != governor {
				t.Errorf("the answer %s is about the FleetRollout %s", state, answer.FleetRollout)
			}
		}
	}
	if s := h.state("eu1", unknown); s.Seq != 0 {
		t.Errorf("the hub has an answer about a Rollout that it has never heard of: %s", s.Data)
	}
}

func TestWhatAHeartbeatSays(t *testing.T) {
	h := aHub(t)
	beats := make(chan []byte, 10)
	stop, err := h.queue.SubscribeBeats(fleetmessage.BeatSubject("*"), func(subject string, data []byte) {
		if subject == fleetmessage.BeatSubject("eu1") {
			beats <- data
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	if _, err := h.queue.WorkStreamCreated(t.Context()); err != nil { // NATS has answered, so it knows the subscription
		t.Fatal(err)
	}
	eu1 := h.joined("eu1", keyPair(t))
	last := map[string]int64{}
	beat := func() fleetmessage.Beat {
		t.Helper()
		b, err := fleetmessage.Expected{Member: eu1.Member, Keys: []string{public(t, eu1.key)}}.OpenBeat(receive(t, "a heartbeat", beats), last, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		last[b.Process] = b.Number
		return b
	}
	want := fleetmessage.Beat{Member: eu1.Member, Version: "v0.3.0", Enforcement: api.FleetEnforcementPolicy, HubKeys: []string{public(t, h.key)}}
	got := beat()
	want.Time, want.Process, want.Number = got.Time, eu1.process, got.Number
	if !cmp.Equal(want, got) {
		t.Errorf("the heartbeat (-want +got):\n%s", cmp.Diff(want, got))
	}
	h.give(anOrder("eu1"), keyPair(t))
	eu1.wantHint(checkout)
	eu1.Order(governed(checkout))
	eu1.connected() // a cluster sends one at once when it connects
	for got = beat(); !strings.Contains(got.Refused, "shop/checkout") || !strings.Contains(got.Refused, "not trusted"); got = beat() {
		t.Logf("a heartbeat before the refusal: %+v", got)
	}
	h.until("the metric says that it is connected", func() error {
		if testutil.ToFloat64(eu1.metrics.connected) != 1 {
			return errors.New("it does not")
		}
		return nil
	})
}

// Messages on subjects that name no Rollout come from a hub of another version.
func TestASubjectThatNamesNoRolloutIsIgnored(t *testing.T) {
	h := aHub(t)
	eu1 := h.joined("eu1", keyPair(t))
	for _, subject := range []string{"sluice.fleet.down.eu1.shop", "sluice.fleet.down.eu2.shop.checkout", "sluice.work.eu1.shop.checkout"} {
		eu1.orderArrived(subject, nil)
	}
	eu1.Link.mu.Lock()
	defer eu1.Link.mu.Unlock()
	if len(eu1.rollouts) != 1 {
		t.Errorf("the link knows %d Rollouts", len(eu1.rollouts))
	}
}

func TestALinkWithoutAnAddressEnds(t *testing.T) {
	t.Parallel()
	l := New(Options{Member: fleetmessage.Member{Name: "eu1"}})
	if err := l.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "no address is given") {
		t.Errorf("it ends with: %v", err)
	}
}
