package metric

import (
	"errors"
	"fmt"
)

// Outcome is the way a query ended, and the label of sluice_metric_queries_total.
type Outcome string

// Values of Outcome. Answered is the only one without an *Error.
const (
	Answered Outcome = "answered"
	// NotAllowed: the operator does not allow the address, or it is malformed; nothing was sent.
	NotAllowed Outcome = "not_allowed"
	// BadSecret: the Secret or a header cannot be used; nothing was sent.
	BadSecret Outcome = "bad_secret"
	// Unreachable: the connection failed.
	Unreachable Outcome = "unreachable"
	// BadTLS: the provider and Sluice do not trust each other, or one of them does not speak TLS.
	BadTLS Outcome = "bad_tls"
	// Unauthorized: the provider refuses the credentials.
	Unauthorized Outcome = "unauthorized"
	// Redirected: the provider answered with a redirect, which Sluice does not follow.
	Redirected Outcome = "redirected"
	// Late: the whole answer did not come in time, or other queries of the namespace took all slots.
	Late Outcome = "late"
	// TooLarge: the answer is longer than MaxBody.
	TooLarge Outcome = "too_large"
	// NotPrometheus: another server answered, for example with an HTML page.
	NotPrometheus Outcome = "not_prometheus"
	// BadQuery: Prometheus cannot parse the query.
	BadQuery Outcome = "bad_query"
	// QueryFailed: Prometheus parsed the query and could not carry it out.
	QueryFailed Outcome = "query_failed"
	// ProviderFailed: the provider reported an internal failure.
	ProviderFailed Outcome = "provider_failed"
	// Throttled: the provider has a rate limit, and Sluice exceeded it.
	Throttled Outcome = "throttled"
	// Rested: nothing was sent, because the breaker of the provider is open after repeated failures.
	Rested Outcome = "rested"
	// Panicked: Sluice's own code panicked on the answer.
	Panicked Outcome = "panicked"
	// Ended: the caller gave up.
	Ended Outcome = "ended"
)

// Error says why a query has no result. Its text is for the authors of the query: full sentences that say what to do next.
type Error struct {
	Outcome Outcome
	// Address is the provider's address as the template gives it.
	Address string
	text    string
	cause   error
}

// Error returns the text.
func (e *Error) Error() string { return e.text }

// Unwrap returns the error of the network or of a decoder, if there is one.
func (e *Error) Unwrap() error { return e.cause }

// OutcomeOf returns the outcome of a query that returned err.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Answered
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return known.Outcome
	}
	return ProviderFailed
}

// newError makes an error from a format that continues the sentence "Prometheus at ADDRESS ...".
func newError(outcome Outcome, address string, cause error, format string, args ...any) *Error {
	return &Error{Outcome: outcome, Address: address, cause: cause,
		text: "Prometheus at " + quoteText(address) + " " + fmt.Sprintf(format, args...)}
}

// shown is the longest part of a foreign text that Sluice repeats, in bytes.
const shown = 200

// quoteText makes foreign text safe to show: one line, of bounded length.
func quoteText(text string) string {
	if len(text) > shown {
		text = text[:shown] + "..."
	}
	q := fmt.Sprintf("%q", text)
	return q
}
