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

var beatTime = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func aBeat() Beat {
	return Beat{Member: eu1, Time: beatTime, Process: "p1", Number: 7, Version: "v0.3.0", Enforcement: api.FleetEnforcementPolicy, HubKeys: []string{"K1", "K2"}, Refused: "shop/pay: it is old"}
}

func TestWhichHeartbeatsCount(t *testing.T) {
	t.Parallel()
	member, public := keyPair(t)
	next, nextPublic := keyPair(t)
	other, _ := keyPair(t)
	for name, c := range map[string]struct {
		change func(*Beat)
		by     nkeys.KeyPair
		spoil  func([]byte) []byte
		last   map[string]int64
		after  time.Duration // when it arrives
		anyUID bool
		want   Reason
		text   string
	}{
		"the first one":                                 {},
		"the first one of a new cluster":                {anyUID: true},
		"one by the next key":                           {by: next},
		"a later one":                                   {last: map[string]int64{"p1": 6}},
		"the first one of another process":              {last: map[string]int64{"p0": 9}},
		"one of 10 minutes ago":                         {after: 10 * time.Minute},
		"one of a clock that is 10 minutes ahead":       {after: -10 * time.Minute},
		"the same one again":                            {last: map[string]int64{"p1": 7}, want: ReasonOld, text: "before the last one"},
		"an older one":                                  {last: map[string]int64{"p1": 8}, want: ReasonOld, text: "before the last one"},
		"one that was kept for more than 10 minutes":    {after: 10*time.Minute + 1, want: ReasonClock, text: "set them right"},
		"one of a clock more than 10 minutes ahead":     {after: -10*time.Minute - 1, want: ReasonClock, text: "set them right"},
		"one by a stranger":                             {by: other, want: ReasonUnknownKey},
		"one of another cluster":                        {change: func(b *Beat) { b.Member.Name = "eu2" }, want: ReasonWrongCluster},
		"one of another cluster of the name":            {change: func(b *Beat) { b.Member.UID = "other" }, want: ReasonNameTaken},
		"an older one of another cluster of the name":   {change: func(b *Beat) { b.Member.UID = "other" }, last: map[string]int64{"p1": 8}, want: ReasonNameTaken},
		"one of another cluster that was kept for long": {change: func(b *Beat) { b.Member.UID = "other" }, after: time.Hour, want: ReasonClock},
		"one of no cluster":                             {change: func(b *Beat) { b.Member.UID = "" }, want: ReasonMalformed},
		"an answer that is sent as a heartbeat":         {spoil: func([]byte) []byte { m, _ := anAnswer().Seal(member); return m }, want: ReasonBadSignature},
		"one that was changed on its way":               {spoil: swapSignature(other), want: ReasonBadSignature},
		"one that was cut off":                          {spoil: func(m []byte) []byte { return m[:len(m)/2] }, want: ReasonMalformed},
		"garbage":                                       {spoil: func([]byte) []byte { return []byte("garbage") }, want: ReasonMalformed},
		"nothing":                                       {spoil: func([]byte) []byte { return nil }, want: ReasonMalformed},
		"one that is too large":                         {spoil: func([]byte) []byte { return []byte(strings.Repeat("x", MaxSize+1)) }, want: ReasonMalformed},
		"one whose body is no heartbeat":                {spoil: func([]byte) []byte { m, _ := seal(purposeBeat, member, []string{"x"}); return m }, want: ReasonMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, by := aBeat(), c.by
			if c.change != nil {
				c.change(&b)
			}
			if by == nil {
				by = member
			}
			message, err := b.Seal(by)
			if err != nil {
				t.Fatal(err)
			}
			if c.spoil != nil {
				message = c.spoil(message)
			}
			from := Expected{Member: eu1, Keys: []string{public, nextPublic}}
			if c.anyUID {
				from.Member.UID = ""
			}
			got, err := from.OpenBeat(message, c.last, beatTime.Add(c.after))
			if reason := refused(t, err); reason != c.want {
				t.Fatalf("it is refused as %q, want %q: %v", reason, c.want, err)
			}
			if c.text != "" && !strings.Contains(err.Error(), c.text) {
				t.Errorf("it is refused with %q, want %q", err, c.text)
			}
			want := b
			if c.want != "" && c.want != ReasonNameTaken { // the hub learns which cluster has taken the name
				want = Beat{}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("what was read (-want +got):\n%s", diff)
			}
		})
	}
}

// swapSignature returns a function that signs the body of a message by another key, and leaves the name of the key.
func swapSignature(by nkeys.KeyPair) func([]byte) []byte {
	return func(message []byte) []byte {
		var e envelope
		if err := json.Unmarshal(message, &e); err != nil {
			panic(err)
		}
		var err error
		if e.Signature, err = by.Sign(append([]byte(purposeBeat), e.Body...)); err != nil {
			panic(err)
		}
		changed, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		return changed
	}
}

func TestWhatIsReadBeforeItIsCompared(t *testing.T) {
	t.Parallel()
	pair, public := keyPair(t)
	other, otherPublic := keyPair(t)
	keys := []string{otherPublic, public}
	for _, c := range []struct {
		pair   nkeys.KeyPair
		public string
	}{{pair, public}, {other, otherPublic}} {
		message, err := anOrder().Seal(c.pair)
		if err != nil {
			t.Fatal(err)
		}
		if got, signer, err := ReadOrder(message, keys); err != nil || signer != c.public || !cmp.Equal(anOrder(), got) {
			t.Errorf("an order by %s: signer %s, %v, order %+v", c.public, signer, err, got)
		}
	}
	message, err := anOrder().Seal(pair)
	if err != nil {
		t.Fatal(err)
	}
	if got, signer, err := ReadOrder(message, keys[:1]); refused(t, err) != ReasonUnknownKey || signer != "" || !cmp.Equal(Order{}, got) {
		t.Errorf("an order by a key that is not trusted: signer %q, %v, order %+v", signer, err, got)
	}

	if message, err = anAnswer().Seal(pair); err != nil {
		t.Fatal(err)
	}
	elsewhere := Member{Name: "eu1", UID: "other"}
	if got, err := (Expected{Member: elsewhere, Keys: keys}).ReadAnswer(message); err != nil || !cmp.Equal(anAnswer(), got) {
		t.Errorf("an answer of another cluster of the name: %v, answer %+v", err, got)
	}
	if got, err := (Expected{Member: Member{Name: "eu2"}, Keys: keys}).ReadAnswer(message); refused(t, err) != ReasonWrongCluster || !cmp.Equal(Answer{}, got) {
		t.Errorf("an answer of a cluster of another name: %v, answer %+v", err, got)
	}
	if got, err := (Expected{Member: eu1, Keys: keys[:1]}).ReadAnswer(message); refused(t, err) != ReasonUnknownKey || !cmp.Equal(Answer{}, got) {
		t.Errorf("an answer by a key that is not trusted: %v, answer %+v", err, got)
	}
}

func TestWhichAnswersSayTheSame(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Answer)
		want   bool
	}{
		"the same":                         {func(*Answer) {}, true},
		"the same, sent later":             {func(a *Answer) { a.Sent, a.Time, a.Version = 11, a.Time.Add(time.Hour), "v0.4.0" }, true},
		"another state":                    {func(a *Answer) { a.Report.State = api.FleetReportFailed }, false},
		"another permit":                   {func(a *Answer) { a.Report.Seq = 3 }, false},
		"another withdrawn version":        {func(a *Answer) { a.Report.Blocked = []api.FleetBlock{{Version: "version/v1"}} }, false},
		"the same to another FleetRollout": {func(a *Answer) { a.FleetRollout.Name = "pay" }, false},
	} {
		other := anAnswer()
		c.change(&other)
		if got := anAnswer().SaysSame(&other); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
	if anAnswer().SaysSame(nil) {
		t.Error("an answer says the same as none")
	}
}

func TestAClusterWithoutAGovernedRolloutIsGone(t *testing.T) {
	t.Parallel()
	for state, want := range map[api.FleetReportState]bool{
		api.FleetReportIdle: false, api.FleetReportHeld: false, api.FleetReportProgressing: false, api.FleetReportAtHold: false, api.FleetReportCompleted: false,
		api.FleetReportFailed: false, api.FleetReportAbsent: true, api.FleetReportUngoverned: true,
	} {
		if got := (Answer{Report: api.FleetReport{State: state}}).Gone(); got != want {
			t.Errorf("%s: %t, want %t", state, got, want)
		}
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

func TestSubjectsOfHeartbeatsNameTheirCluster(t *testing.T) {
	t.Parallel()
	if member, ok := ParseBeatSubject(BeatSubject("eu1")); member != "eu1" || !ok {
		t.Errorf("the subject %s names %q, %t", BeatSubject("eu1"), member, ok)
	}
	for _, subject := range []string{"", "sluice.fleet.beat.", "sluice.fleet.beat", "sluice.fleet.beat.eu1.shop", "sluice.fleet.up.eu1", "eu1"} {
		if member, ok := ParseBeatSubject(subject); ok {
			t.Errorf("%q is read as a heartbeat of %q", subject, member)
		}
	}
}

func FuzzOpenNeverPanics(f *testing.F) {
	pair, public := keyPair(f)
	for _, m := range []interface {
		Seal(nkeys.KeyPair) ([]byte, error)
	}{anOrder(), anAnswer(), aBeat()} {
		message, err := m.Seal(pair)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(message)
	}
	f.Add([]byte(`{"key":"` + public + `","body":"e30=","signature":"AA=="}`))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys := []string{public, "x"}
		forged := func(what string, content any) { t.Errorf("%s that nobody has signed counts: %+v", what, content) }
		if o, err := (Receiver{Member: eu1, Keys: keys}).OpenOrder(data, checkout, governor, nil); err == nil && !cmp.Equal(o, anOrder()) {
			forged("an order", o)
		}
		if o, signer, err := ReadOrder(data, keys); err == nil && (!cmp.Equal(o, anOrder()) || signer != public) {
			forged("an order", o)
		}
		from := Expected{Member: eu1, Keys: keys}
		if a, err := from.OpenAnswer(data, checkout, governor, 0); err == nil && !cmp.Equal(a, anAnswer()) {
			forged("an answer", a)
		}
		if a, err := from.ReadAnswer(data); err == nil && !cmp.Equal(a, anAnswer()) {
			forged("an answer", a)
		}
		if b, err := from.OpenBeat(data, nil, beatTime); err == nil && !cmp.Equal(b, aBeat()) {
			forged("a heartbeat", b)
		}
	})
}
