package metric

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// bench records the notices and the gauge of its breakers.
type bench struct {
	*breakers
	now     time.Time
	notices []string
	down    map[string]bool
}

func newBench() *bench {
	b := &bench{now: time.Unix(1000, 0), down: map[string]bool{}}
	b.breakers = &breakers{known: map[string]*breaker{},
		notify: func(n Notice) {
			b.notices = append(b.notices, fmt.Sprintf("%s down=%v %s", n.Provider, n.Down, n.Reason))
		},
		gauge: func(provider string, open bool) {
			if open {
				b.down[provider] = true
			} else {
				delete(b.down, provider)
			}
		}}
	return b
}

// try sends a query with the given effect, or returns that the breaker did not send it.
func (b *bench) try(provider string, what effect) string {
	a, err := b.startAttempt(provider, b.now)
	if err != nil {
		return "rested"
	}
	b.now = b.now.Add(time.Millisecond)
	a.finishAttempt(what, "why", b.now)
	return "sent"
}

func (b *bench) times(n int, provider string, what effect) {
	for range n {
		b.try(provider, what)
	}
}

func TestFiveFailuresInARowOpenABreakerWithOneNotice(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.times(opensAfter-1, "a", failing)
	b.try("a", silent) // neither ends nor lengthens the row of failures
	if len(b.notices) > 0 || b.try("a", failing) != "sent" {
		t.Fatalf("it opened early: %v", b.notices)
	}
	for range 1000 {
		if b.try("a", failing) != "rested" {
			t.Fatal("a query was sent to a provider that rests")
		}
	}
	if got := b.try("b", alive); got != "sent" {
		t.Error("another provider rests as well")
	}
	if diff := cmp.Diff([]string{"a down=true why"}, b.notices); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]bool{"a": true}, b.down); diff != "" {
		t.Error(diff)
	}
}

// A tenant chooses the query, its timeout, headers and certificates. They must not open the breaker of a provider for others.
func TestOnlyTheTroubleOfAProviderOpensItsBreaker(t *testing.T) {
	t.Parallel()
	want := map[Outcome]effect{Answered: alive, BadQuery: alive, Unreachable: failing, ProviderFailed: failing}
	for _, outcome := range []Outcome{Answered, NotAllowed, BadSecret, Unreachable, BadTLS, Unauthorized, Redirected, Late, TooLarge,
		NotPrometheus, BadQuery, QueryFailed, ProviderFailed, Throttled, Rested, Panicked, Ended} {
		if got := effectOf(outcome, time.Millisecond); got != want[outcome] {
			t.Errorf("%s has effect %d, not %d", outcome, got, want[outcome])
		}
	}
	if effectOf(Late, patience) != failing {
		t.Error("a provider that keeps us waiting is well")
	}
}

func TestAnAnswerEndsTheRow(t *testing.T) {
	t.Parallel()
	b := newBench()
	for range 10 {
		b.times(opensAfter-1, "a", failing)
		b.try("a", alive)
	}
	if len(b.notices) > 0 {
		t.Error(b.notices)
	}
}

func TestAProviderThatRestedIsAskedByOneAtATimeWithGrowingRests(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.times(opensAfter, "a", failing)
	var rests []time.Duration
	for range 7 {
		from := b.now
		b.now = b.known["a"].until
		rests = append(rests, b.now.Sub(from).Round(10*time.Millisecond))
		probe, err := b.startAttempt("a", b.now)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.try("a", alive); got != "rested" {
			t.Fatal("two probes at once")
		}
		probe.finishAttempt(failing, "why", b.now)
	}
	want := []time.Duration{1 * time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second}
	if diff := cmp.Diff(want, rests); diff != "" {
		t.Error(diff)
	}
	b.now = b.known["a"].until
	for range 2 { // the first is the probe
		if b.try("a", alive) != "sent" {
			t.Error("it still rests")
		}
	}
	if diff := cmp.Diff([]string{"a down=true why", "a down=false why"}, b.notices); diff != "" {
		t.Error(diff)
	}
	if len(b.known)+len(b.down) > 0 {
		t.Error("something is remembered of a provider that is well")
	}
}

func TestAProbeThatIsGivenUpLeavesTheTurnToTheNext(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.times(opensAfter, "a", failing)
	b.now = b.now.Add(firstRest)
	b.try("a", silent)
	if b.try("a", alive) != "sent" {
		t.Error("nobody probes any more")
	}
}

// One tenant sends many slow queries at once, and another gets an answer meanwhile: the provider is healthy.
func TestSlowQueriesOfOneDoNotRestAProviderThatAnswersOthers(t *testing.T) {
	t.Parallel()
	b := newBench()
	var slow []*attempt
	for range 2 * opensAfter {
		one, err := b.startAttempt("a", b.now)
		if err != nil {
			t.Fatal(err)
		}
		slow = append(slow, one)
	}
	b.try("a", alive)
	for _, one := range slow {
		one.finishAttempt(failing, "late", b.now)
	}
	if len(b.notices) > 0 {
		t.Error(b.notices)
	}
}

func TestWhatIsRememberedOfProvidersIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench()
	for i := range 10 * maxBreakers {
		b.times(opensAfter, fmt.Sprint(i), failing)
		b.now = b.now.Add(2 * firstRest)
	}
	if len(b.known) > maxBreakers || len(b.down) > maxBreakers {
		t.Errorf("%d breakers and %d series are kept", len(b.known), len(b.down))
	}
}

func TestConnectionsOfManyTenantsAreBounded(t *testing.T) {
	t.Parallel()
	kept := &transports{dialer: &dialer{}, known: map[[32]byte]*keptTransport{}}
	now := time.Unix(1000, 0)
	first := kept.transportFor(security{}, now)
	for i := range 10 * maxTransports {
		now = now.Add(time.Millisecond)
		kept.transportFor(security{digest: [32]byte{1, byte(i), byte(i >> 8)}}, now)
		if kept.transportFor(security{}, now) != first {
			t.Fatal("what is in use was dropped")
		}
	}
	if len(kept.known) > maxTransports {
		t.Errorf("%d are kept", len(kept.known))
	}
	kept.transportFor(security{digest: [32]byte{2}}, now.Add(2*idleTimeout))
	if len(kept.known) != 1 {
		t.Errorf("%d are kept of those that nobody uses", len(kept.known)-1)
	}
}
