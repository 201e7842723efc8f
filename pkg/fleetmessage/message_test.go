package fleetmessage

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nkeys"

	"sluice.dev/sluice/pkg/api"
)

func keyPair(t testing.TB) (nkeys.KeyPair, string) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return pair, public
}

var (
	checkout = Name{Namespace: "shop", Name: "checkout"}
	governor = api.FleetReference{Namespace: "shop", Name: "checkout"}
	eu1      = Member{Name: "eu1", UID: "uid-of-eu1"}
)

func anOrder() Order {
	return Order{
		Hub: "hub", FleetRollout: governor, UID: "f", Member: eu1, Rollout: checkout,
		Permit:  &api.FleetPermit{Epoch: 5, Seq: 2, Verb: api.FleetVerbRelease, Version: "version/v2", Revision: "h2"},
		Blocked: []api.FleetBlock{{Version: "version/v1", Epoch: 4}},
	}
}

func anAnswer() Answer {
	return Answer{
		Member: eu1, Rollout: checkout, FleetRollout: governor, Sent: 10, Time: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC),
		Report: api.FleetReport{Epoch: 5, Seq: 2, State: api.FleetReportCompleted},
	}
}

// refused returns the reason of a refusal, "" without an error.
func refused(t *testing.T, err error) Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	var r *Refusal
	if !errors.As(err, &r) {
		t.Fatalf("%v is no refusal", err)
	}
	return r.Reason
}

func TestWhichOrdersCount(t *testing.T) {
	t.Parallel()
	hub, public := keyPair(t)
	next, nextPublic := keyPair(t)
	stranger, _ := keyPair(t)
	last := func(epoch, seq int64) *api.FleetPermit { return &api.FleetPermit{Epoch: epoch, Seq: seq} }
	for name, c := range map[string]struct {
		change   func(*Order)
		by       nkeys.KeyPair
		spoil    func([]byte) []byte
		governed api.FleetReference
		last     *api.FleetPermit
		want     Reason
	}{
		"the first order":                           {},
		"the same order again":                      {last: last(5, 2)},
		"a newer one":                               {last: last(5, 1)},
		"an order by the next key":                  {by: next},
		"an order by a stranger":                    {by: stranger, want: ReasonUnknownKey},
		"an order that was changed on its way":      {spoil: swapSeq, want: ReasonBadSignature},
		"an answer that is sent as an order":        {spoil: func([]byte) []byte { m, _ := anAnswer().Seal(hub); return m }, want: ReasonBadSignature},
		"an order that was cut off":                 {spoil: func(m []byte) []byte { return m[:len(m)/2] }, want: ReasonMalformed},
		"nothing":                                   {spoil: func([]byte) []byte { return nil }, want: ReasonMalformed},
		"an order that is too large":                {spoil: func([]byte) []byte { return []byte(strings.Repeat("x", MaxSize+1)) }, want: ReasonMalformed},
		"an order of another hub":                   {change: func(o *Order) { o.Hub = "other" }, want: ReasonWrongHub},
		"an order of no hub":                        {change: func(o *Order) { o.Hub = "" }, want: ReasonMalformed},
		"an order for another cluster":              {change: func(o *Order) { o.Member.Name = "eu2" }, want: ReasonWrongCluster},
		"an order for a cluster that took the name": {change: func(o *Order) { o.Member.UID = "other" }, want: ReasonNameTaken},
		"an order about another Rollout":            {change: func(o *Order) { o.Rollout.Name = "pay" }, want: ReasonWrongRollout},
		"an order of another FleetRollout":          {governed: api.FleetReference{Namespace: "shop", Name: "pay"}, want: ReasonNotYours},
		"an older order of the epoch":               {last: last(5, 3), want: ReasonOld},
		"an order of an older epoch":                {last: last(6, 1), want: ReasonOld},
		"an order without a permit":                 {change: func(o *Order) { o.Permit = nil }, want: ReasonMalformed},
		"a FleetRollout that was deleted":           {change: func(o *Order) { o.Permit, o.Deleted = nil, 6 }, last: last(5, 9)},
		"a FleetRollout that was deleted long ago":  {change: func(o *Order) { o.Permit, o.Deleted = nil, 6 }, last: last(6, 1), want: ReasonOld},
		"an order with a field of a later version":  {spoil: addField(hub)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := anOrder()
			if c.change != nil {
				c.change(&o)
			}
			by := c.by
			if by == nil {
				by = hub
			}
			message, err := o.Seal(by)
			if err != nil {
				t.Fatal(err)
			}
			if c.spoil != nil {
				message = c.spoil(message)
			}
			by1 := c.governed
			if by1 == (api.FleetReference{}) {
				by1 = governor
			}
			got, err := Receiver{Member: eu1, Hub: "hub", Keys: []string{public, nextPublic}}.OpenOrder(message, checkout, by1, c.last)
			if reason := refused(t, err); reason != c.want {
				t.Fatalf("it is refused as %q, want %q: %v", reason, c.want, err)
			}
			want := o
			if c.want != "" {
				want = Order{}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("what was read (-want +got):\n%s", diff)
			}
		})
	}
}

// swapSeq changes the permit inside of a signed message.
func swapSeq(message []byte) []byte {
	var e envelope
	if err := json.Unmarshal(message, &e); err != nil {
		panic(err)
	}
	e.Body = []byte(strings.Replace(string(e.Body), `"seq":2`, `"seq":9`, 1))
	changed, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return changed
}

// addField returns a function that signs the message again with a field that this version does not know.
func addField(key nkeys.KeyPair) func([]byte) []byte {
	return func(message []byte) []byte {
		var e envelope
		if err := json.Unmarshal(message, &e); err != nil {
			panic(err)
		}
		again, err := seal(purposeOrder, key, json.RawMessage(strings.Replace(string(e.Body), "{", `{"later":1,`, 1)))
		if err != nil {
			panic(err)
		}
		return again
	}
}

func TestWhichAnswersCount(t *testing.T) {
	t.Parallel()
	member, public := keyPair(t)
	other, _ := keyPair(t)
	for name, c := range map[string]struct {
		change func(*Answer)
		by     nkeys.KeyPair
		last   int64
		want   Reason
	}{
		"the first answer":                     {},
		"the same answer again":                {last: 10},
		"an older answer":                      {last: 11, want: ReasonOld},
		"an answer by the key of another":      {by: other, want: ReasonUnknownKey},
		"an answer of another cluster":         {change: func(a *Answer) { a.Member.Name = "eu2" }, want: ReasonWrongCluster},
		"an answer of a cluster with the name": {change: func(a *Answer) { a.Member.UID = "other" }, want: ReasonNameTaken},
		"an answer about another Rollout":      {change: func(a *Answer) { a.Rollout.Name = "pay" }, want: ReasonWrongRollout},
		"an answer to another FleetRollout":    {change: func(a *Answer) { a.FleetRollout.Name = "pay" }, want: ReasonNotYours},
		"a Rollout that left":                  {change: func(a *Answer) { a.FleetRollout, a.Report.State = api.FleetReference{}, api.FleetReportUngoverned }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, by := anAnswer(), c.by
			if c.change != nil {
				c.change(&a)
			}
			if by == nil {
				by = member
			}
			message, err := a.Seal(by)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Expected{Member: eu1, Keys: []string{public}}.OpenAnswer(message, checkout, governor, c.last)
			if reason := refused(t, err); reason != c.want {
				t.Fatalf("it is refused as %q, want %q: %v", reason, c.want, err)
			}
			if c.want == "" && !cmp.Equal(a, got) {
				t.Errorf("what was read (-want +got):\n%s", cmp.Diff(a, got))
			}
		})
	}
}

// A status has at most 64 withdrawn versions, and the names of versions are short enough for a message with all of them.
func TestAnOrderWithAllBlocksFits(t *testing.T) {
	t.Parallel()
	hub, _ := keyPair(t)
	o := anOrder()
	o.Blocked = nil
	for i := range api.MaxFleetBlocks {
		o.Blocked = append(o.Blocked, api.FleetBlock{Version: "images/" + api.FleetImagesDigest(map[string]string{"app": strings.Repeat("x", i)}), Epoch: 1_800_000_000_000, Unblocked: true})
	}
	if _, err := o.Seal(hub); err != nil {
		t.Error(err)
	}
	o.Blocked[0].Version = strings.Repeat("x", MaxSize)
	if _, err := o.Seal(hub); err == nil {
		t.Error("an order beyond the limit is sealed")
	}
}

func TestSubjectsNameTheirRollout(t *testing.T) {
	t.Parallel()
	for subject, want := range map[string]Name{
		OrderSubject("eu1", Name{"shop", "checkout"}):  {"shop", "checkout"},
		AnswerSubject("eu1", Name{"shop", "web.v2.x"}): {"shop", "web.v2.x"},
	} {
		member, rollout, err := ParseSubject(subject)
		if member != "eu1" || rollout != want || err != nil {
			t.Errorf("%s names %s of %s (%v), want %s of eu1", subject, rollout, member, err, want)
		}
	}
	for _, subject := range []string{"", "sluice.fleet.beat.eu1", "sluice.fleet.up.eu1.shop", "sluice.fleet.down.eu1.shop.a.b", "sluice.fleet.down..shop.a", "sluice.work.eu1.shop.a"} {
		if _, _, err := ParseSubject(subject); err == nil {
			t.Errorf("%q is read", subject)
		}
	}
}

func FuzzOpenNeverPanics(f *testing.F) {
	hub, public := keyPair(f)
	message, err := anOrder().Seal(hub)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(message)
	f.Add([]byte(`{"key":"` + public + `","body":"e30=","signature":"AA=="}`))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if o, err := (Receiver{Member: eu1, Keys: []string{public, "x"}}).OpenOrder(data, checkout, governor, nil); err == nil && !cmp.Equal(o, anOrder()) {
			t.Errorf("a message that the hub did not sign counts: %+v", o)
		}
	})
}
