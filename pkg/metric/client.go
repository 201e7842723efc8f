package metric

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// Defaults and limits of Options and Request.
const (
	DefaultTimeout      = 10 * time.Second
	MaxTimeout          = time.Minute
	DefaultPerNamespace = 8
	// MaxBody is the longest answer that the client accepts, in bytes, after decompression.
	MaxBody = 1 << 20
)

// Options configure a Client. The zero value allows Services of the cluster.
type Options struct {
	// Hosts are the hosts that may be called.
	Hosts Hosts
	// PerNamespace is the number of queries of one namespace that run at once; 0 means DefaultPerNamespace.
	PerNamespace int
	// Notify is called once when the breaker of a provider opens, and once when the provider answers again. It must return at once and not call the
	// Client. May be nil.
	Notify func(Notice)
	// Metrics may be nil.
	Metrics *Metrics
	// Logger may be nil.
	Logger *slog.Logger
	// Resolver looks up hosts; nil means the resolver of the system.
	Resolver *net.Resolver
}

// Client queries providers. It is safe for concurrent use.
type Client struct {
	hosts      Hosts
	limits     *namespaceLimits
	breakers   *breakers
	transports *transports
	metrics    *Metrics
	log        *slog.Logger
}

// Request is one query.
type Request struct {
	// Namespace is the namespace whose limit the query counts against.
	Namespace string
	Provider  Provider
	// Query is PromQL.
	Query string
	// At is the time of an instant query; zero means the provider's current time. Unused with Range.
	At time.Time
	// Range makes it a range query.
	Range *Range
	// Timeout bounds the whole call; 0 means DefaultTimeout, and a value above MaxTimeout means MaxTimeout.
	Timeout time.Duration
}

// Range is a time range from Start to End, both included, in steps.
type Range struct {
	Start, End time.Time
	Step       time.Duration
}

// New makes a client; the caller must Close it.
func New(o Options) *Client {
	if o.PerNamespace <= 0 {
		o.PerNamespace = DefaultPerNamespace
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	notify := func(n Notice) {
		if n.Down {
			o.Logger.Warn("a metrics provider does not answer and is asked less often", "provider", n.Provider, "since", n.Since, "reason", n.Reason)
		} else {
			o.Logger.Info("a metrics provider answers again", "provider", n.Provider, "since", n.Since)
		}
		if o.Notify != nil {
			o.Notify(n)
		}
	}
	return &Client{
		hosts:      o.Hosts,
		limits:     &namespaceLimits{each: int64(o.PerNamespace), known: map[string]*namespaceLimit{}},
		breakers:   &breakers{notify: notify, gauge: o.Metrics.setBreakerOpen, known: map[string]*breaker{}},
		transports: &transports{dialer: &dialer{o.Hosts, o.Resolver}, known: map[[32]byte]*keptTransport{}},
		metrics:    o.Metrics,
		log:        o.Logger,
	}
}

// Close closes idle connections. All queries must have ended.
func (c *Client) Close() { c.transports.closeAll() }

// Query sends one query, without retries. The error is always an *Error.
func (c *Client) Query(ctx context.Context, r Request) (Answer, error) {
	began := time.Now()
	answer, err := c.queryProvider(ctx, r)
	c.metrics.observeQuery(OutcomeOf(err), time.Since(began))
	return answer, err
}

func (c *Client) queryProvider(ctx context.Context, r Request) (Answer, error) {
	target, err := parseProvider(r.Provider, c.hosts)
	if err != nil {
		return Answer{}, err
	}
	timeout := min(r.Timeout, MaxTimeout)
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	give, err := c.limits.acquireSlot(ctx, r.Namespace)
	if err != nil {
		return Answer{}, noSlotError(ctx, target, r.Namespace, c.limits.each)
	}
	defer give()
	asked := time.Now()
	try, err := c.breakers.startAttempt(target.breakerKey(), asked)
	if err != nil {
		return Answer{}, newRestedError(target, err)
	}
	answer, err := c.callProvider(ctx, target, c.transports.transportFor(target.secure, time.Now()), r)
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	now := time.Now()
	try.finishAttempt(effectOf(OutcomeOf(err), now.Sub(asked)), reason, now)
	return answer, err
}

func noSlotError(ctx context.Context, target *provider, namespace string, each int64) *Error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return newError(Ended, target.address, ctx.Err(), "was not asked: the analysis ended before.")
	}
	return newError(Late, target.address, ctx.Err(), "was not asked in time: the %d queries that namespace %s may run at once all take long. Make its queries simpler, or its intervals longer.",
		each, namespace)
}

func newRestedError(target *provider, err error) *Error {
	why := err.(*restedError)
	return newError(Rested, target.address, why, "has not answered since %s and is asked again from %s on. The last trouble was: %s",
		why.since.UTC().Format(time.RFC3339), why.until.UTC().Format(time.RFC3339), why.reason)
}

// callProvider turns a panic of the decoder into an error.
func (c *Client) callProvider(ctx context.Context, target *provider, transport http.RoundTripper, r Request) (answer Answer, err error) {
	defer func() {
		if caught := recover(); caught != nil {
			c.log.Error("a query panicked", "provider", target.address, "panic", caught, "stack", string(debug.Stack()))
			err = newError(Panicked, target.address, nil, "gave an answer that Sluice cannot cope with, and the fault is Sluice's: %v. Please report it with the query.", caught)
		}
	}()
	call := newCaller(target, transport)
	api := v1.NewAPI(call)
	var options []v1.Option
	if deadline, ok := ctx.Deadline(); ok {
		// The parameter stops Prometheus when the caller no longer waits. Prometheus reads no fractions of a second.
		options = append(options, v1.WithTimeout(time.Until(deadline).Truncate(time.Second)+time.Second))
	}
	var value model.Value
	var warnings v1.Warnings
	var infos v1.Infos
	if r.Range == nil {
		value, warnings, infos, err = api.Query(ctx, r.Query, r.At, options...)
	} else {
		value, warnings, infos, err = api.QueryRange(ctx, r.Query, v1.Range{Start: r.Range.Start, End: r.Range.End, Step: r.Range.Step}, options...)
	}
	if call.text != nil {
		return *call.text, nil
	}
	if call.partial {
		warnings = append(warnings, partialText)
	}
	if err == nil {
		answer, err = newAnswer(value, warnings, infos)
	}
	if err != nil {
		return Answer{}, explainError(ctx, target, err)
	}
	return answer, nil
}

// noRedirect returns the redirect itself as the answer.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
