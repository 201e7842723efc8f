package metric

import (
	"errors"
	"fmt"
)

// Outcome is how a query ended, the label of sluice_metric_queries_total.
type Outcome string

// Values of Outcome. Answered is the only one without an *Error.
const (
	Answered Outcome = "answered"
	// NotAllowed: the address is none that the operator lets us call, or is no address; nothing was sent.
	NotAllowed Outcome = "not_allowed"
	// BadSecret: the Secret, or a header, cannot be used as it is; nothing was sent.
	BadSecret Outcome = "bad_secret"
	// Unreachable: there was no connection.
	Unreachable Outcome = "unreachable"
	// BadTLS: the provider and we do not trust each other, or one of us speaks no TLS.
	BadTLS Outcome = "bad_tls"
	// Unauthorized: the provider wants other credentials.
	Unauthorized Outcome = "unauthorized"
	// Redirected: the provider sent us elsewhere, and we did not go.
	Redirected Outcome = "redirected"
	// Late: no whole answer came in time, or no turn.
	Late Outcome = "late"
	// TooLarge: the answer is longer than MaxBody.
	TooLarge Outcome = "too_large"
	// NotPrometheus: what answered is something else, such as a page for people.
	NotPrometheus Outcome = "not_prometheus"
	// BadQuery: Prometheus cannot read the query.
	BadQuery Outcome = "bad_query"
	// QueryFailed: Prometheus read the query and could not carry it out.
	QueryFailed Outcome = "query_failed"
	// ProviderFailed: the provider says that it has trouble of its own.
	ProviderFailed Outcome = "provider_failed"
	// Throttled: the provider has a limit for us, and we are beyond it.
	Throttled Outcome = "throttled"
	// Rested: nothing was sent, because the provider has failed time and again and is given a pause.
	Rested Outcome = "rested"
	// Panicked: our own code failed on the answer.
	Panicked Outcome = "panicked"
	// Ended: the caller gave up.
	Ended Outcome = "ended"
)

// Error says why a query has no result. Its text is for the people who wrote the query: full sentences with what to do next.
type Error struct {
	Outcome Outcome
	// Address is the provider as it was given.
	Address string
	text    string
	cause   error
}

// Error is the text.
func (e *Error) Error() string { return e.text }

// Unwrap is the error of the network or of a decoder, if there is one.
func (e *Error) Unwrap() error { return e.cause }

// OutcomeOf is the outcome of a query that returned err.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Answered
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return known.Outcome
	}
	return ProviderFailed
}

// newError makes an error out of a format that starts in the middle of "Prometheus at ADDRESS ...".
func newError(outcome Outcome, address string, cause error, format string, args ...any) *Error {
	return &Error{Outcome: outcome, Address: address, cause: cause,
		text: "Prometheus at " + quoteText(address) + " " + fmt.Sprintf(format, args...)}
}

// shown is how much of what others wrote we repeat.
const shown = 200

// quoteText makes text of others safe to show: one line, of bounded length.
func quoteText(text string) string {
	if len(text) > shown {
		text = text[:shown] + "..."
	}
	q := fmt.Sprintf("%q", text)
	return q
}
