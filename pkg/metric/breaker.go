package metric

import (
	"sync"
	"time"
)

const (
	// opensAfter is the number of consecutive failures that open a breaker.
	opensAfter = 5
	firstRest  = time.Second
	longRest   = 30 * time.Second
	// patience is the least time that a late query must have waited to count as a failure of the provider.
	patience = dialTimeout
	// maxBreakers bounds the number of breakers, because tenants choose the addresses.
	maxBreakers = 1024
)

// Notice says that a provider has stopped answering, or answers again. The client sends one notice for all callers.
type Notice struct {
	// Provider is the address of the API.
	Provider string
	// Down is false if the provider answers again.
	Down bool
	// Since is the time of the first failure.
	Since time.Time
	// Reason is the text of the last failure.
	Reason string
}

// effect is the effect of a query on the breaker of its provider.
type effect int

const (
	// silent: no effect, because the fault is the query's, or the caller gave up.
	silent effect = iota
	// alive: the provider answers as Prometheus does.
	alive
	// failing: the provider did not answer as Prometheus does.
	failing
)

// effectOf separates failures of a provider from failures of one tenant. A tenant chooses the query, its timeout, the headers and the certificates. A
// tenant must not open a provider's breaker for others with bad queries.
func effectOf(outcome Outcome, took time.Duration) effect {
	switch outcome {
	case Answered, BadQuery:
		return alive
	case Unreachable, ProviderFailed:
		return failing
	case Late:
		if took >= patience {
			return failing
		}
	}
	return silent
}

// breakers has one breaker for each provider. A breaker is
//
//	closed --5 failures--> open --rest over--> probing --alive--> closed
//	                         ^--------failing, twice the rest--------'
type breakers struct {
	// notify is called with the mutex held.
	notify func(Notice)
	gauge  func(provider string, open bool)

	mu    sync.Mutex
	known map[string]*breaker
}

type breaker struct {
	provider string
	// users counts the queries under way. A breaker without users and without failures is deleted.
	users    int
	failures int
	since    time.Time
	reason   string
	// lastAlive protects the provider from a tenant with slow queries: a failure does not count if another query got an answer since it began.
	lastAlive time.Time
	// rest is zero while the breaker is closed.
	rest    time.Duration
	until   time.Time
	probing bool
}

// attempt is a query that may be sent; the caller must call finishAttempt once.
type attempt struct {
	all   *breakers
	of    *breaker
	began time.Time
	probe bool
}

// restedError says why the breaker sends no query, and until when.
type restedError struct {
	since, until time.Time
	reason       string
}

func (r *restedError) Error() string { return r.reason }

func (b *breakers) startAttempt(provider string, now time.Time) (*attempt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one, ok := b.known[provider]
	if !ok {
		b.dropUnused(now)
		one = &breaker{provider: provider}
		b.known[provider] = one
	}
	open := one.rest > 0
	if open && (one.probing || now.Before(one.until)) {
		return nil, &restedError{since: one.since, until: one.until, reason: one.reason}
	}
	one.probing = open
	one.users++
	return &attempt{all: b, of: one, began: now, probe: open}, nil
}

// finishAttempt passes the result of the query to the breaker.
func (a *attempt) finishAttempt(what effect, reason string, now time.Time) {
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	one := a.of
	one.users--
	if a.probe {
		one.probing = false
	}
	switch what {
	case alive:
		one.lastAlive = now
		a.all.closeBreaker(one)
	case failing:
		a.all.countFailure(one, a, reason, now)
	case silent: // the next query is the probe
	}
	if one.users == 0 && one.failures == 0 {
		delete(a.all.known, one.provider)
	}
}

// closeBreaker also serves queries that were sent before the breaker opened, and got an answer.
func (b *breakers) closeBreaker(one *breaker) {
	was := *one
	one.failures, one.rest, one.until = 0, 0, time.Time{}
	if was.rest > 0 {
		b.gauge(one.provider, false)
		b.notify(Notice{Provider: one.provider, Since: was.since, Reason: was.reason})
	}
}

func (b *breakers) countFailure(one *breaker, a *attempt, reason string, now time.Time) {
	switch {
	case one.lastAlive.After(a.began):
		return
	case a.probe:
		one.rest = min(2*one.rest, longRest)
		one.until, one.reason = now.Add(one.rest), reason
		return
	}
	if one.failures == 0 {
		one.since = now
	}
	one.failures++
	one.reason = reason
	if one.failures == opensAfter {
		one.rest, one.until = firstRest, now.Add(firstRest)
		b.gauge(one.provider, true)
		b.notify(Notice{Provider: one.provider, Down: true, Since: one.since, Reason: reason})
	}
}

// dropUnused makes room: it drops providers without queries since their rest ended.
func (b *breakers) dropUnused(now time.Time) {
	if len(b.known) < maxBreakers {
		return
	}
	for provider, one := range b.known {
		if one.users == 0 && now.After(one.until) {
			b.gauge(provider, false)
			delete(b.known, provider)
		}
	}
}
