// Package queue is the only package that talks to NATS. It has hints to reconcile a release or to measure it, timers,
// leases, the streams of events, and the sums of analyses.
//
// It is the source of truth for nothing. A message only says "look at rollout X". Lost, repeated, late or reordered
// messages cost latency, never correctness, and a deleted stream is created again.
//
// Invariant: only a run that began after the delivery of a hint acknowledges it, and in one process a key never runs
// twice at once.
package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/singleflight"
)

// Options say which NATS to use, and with which credentials.
type Options struct {
	// URL is one server or several separated by commas: nats://host:4222.
	URL string
	// At most one of CredentialsFile, User with Password, and Token is used.
	CredentialsFile string
	User, Password  string
	Token           string
	// CAFile has the certificates that sign the server's; empty means the system's.
	CAFile string
	// InboxPrefix is the prefix of the subjects for answers of NATS; empty means "_INBOX". Users that must not read
	// each other's answers have one each.
	InboxPrefix string
	// Name is shown in the NATS server's list of connections.
	Name string
	// Replicas is the number of replicas of each stream: 1 (also for 0) on one server, 3 in a cluster.
	Replicas int
	Logger   *slog.Logger
}

// Queue is a connection to NATS with all streams in place. Methods are safe for concurrent use. It reconnects by itself
// until it is closed.
type Queue struct {
	nc *nats.Conn
	js jetstream.JetStream
	// leases and sums are nil for a guest, see [ConnectExisting].
	leases, sums jetstream.KeyValue
	replicas     int
	log          *slog.Logger
	// existingOnly keeps the connection from creating streams.
	existingOnly bool
	// hub: the streams of a fleet's hub belong to the streams.
	hub atomic.Bool
	// inbox is the prefix of all inboxes of this connection.
	inbox   string
	denials denials

	ensuring singleflight.Group // one goroutine at a time creates streams again
}

const (
	// requestTimeout bounds each request to NATS. It is longer than a usual election in a NATS cluster.
	requestTimeout = 10 * time.Second
	// answerTimeout is how long the client waits for an answer before it asks again: the server may have died before it
	// could answer.
	answerTimeout = 2 * time.Second
)

const ensureRetry = 500 * time.Millisecond

// Connect connects and creates the streams, and waits until both are done or ctx is. It retries servers that do not
// answer yet; refused credentials are an error at once. The caller must call Close.
func Connect(ctx context.Context, o Options) (*Queue, error) {
	q := &Queue{replicas: max(1, o.Replicas), log: o.Logger}
	if q.log == nil {
		q.log = slog.New(slog.DiscardHandler)
	}
	if err := q.dialNATS(ctx, o); err != nil {
		return nil, err
	}
	var err error
	if q.js, err = jetstream.New(q.nc); err == nil {
		err = q.applyWithRetry(ctx)
	}
	if err != nil {
		q.nc.Close()
		return nil, fmt.Errorf("prepare NATS at %s: %w; check that JetStream is enabled there and that the account may create streams", redactURLs(o.URL), err)
	}
	return q, nil
}

// applyWithRetry creates the streams as soon as NATS can. Servers of a cluster that has just started accept connections
// before they have elected a leader.
func (q *Queue) applyWithRetry(ctx context.Context) error {
	for warned := false; ; warned = true {
		err := q.applyStreams(ctx)
		var refusal *jetstream.APIError
		if err == nil || ctx.Err() != nil || errors.As(err, &refusal) && refusal.Code != http.StatusServiceUnavailable {
			return err
		}
		if !warned {
			q.log.Warn("NATS answers, but cannot make streams yet, trying on; if this lasts, check that JetStream is enabled there and that most servers of the cluster are up", "error", err)
		}
		if closedWithin(ctx.Done(), ensureRetry) {
			return err
		}
	}
}

// ConnectExisting connects without ever creating anything in NATS. It is for clients that only read and send. They need
// no right to create streams, and need not know the number of replicas. The caller must call Close. If NATS later
// refuses the credentials, the connection ends.
func ConnectExisting(ctx context.Context, o Options) (*Queue, error) {
	q := &Queue{log: o.Logger, existingOnly: true}
	if q.log == nil {
		q.log = slog.New(slog.DiscardHandler)
	}
	if err := q.dialNATS(ctx, o); err != nil {
		return nil, err
	}
	var err error
	if q.js, err = jetstream.New(q.nc); err != nil {
		q.nc.Close()
		return nil, fmt.Errorf("use JetStream at %s: %w", redactURLs(o.URL), err)
	}
	return q, nil
}

func (q *Queue) dialNATS(ctx context.Context, o Options) error {
	connected, failed := make(chan struct{}, 1), make(chan error, 1)
	opts, err := q.natsOptions(o, connected, failed)
	if err == nil {
		q.nc, err = nats.Connect(o.URL, opts...)
	}
	if err != nil {
		return fmt.Errorf("connect to NATS at %s: %w", redactURLs(o.URL), err)
	}
	last := q.nc.LastError()
	for warned := false; ; {
		select {
		case <-connected:
			return nil
		case last = <-failed:
		case <-ctx.Done():
			q.nc.Close()
			if last == nil {
				last = ctx.Err()
			}
			return unreachableError(o.URL, last)
		}
		if errors.Is(last, nats.ErrAuthorization) || errors.Is(last, nats.ErrAuthExpired) {
			q.nc.Close()
			return fmt.Errorf("connect to NATS at %s: %w; check the user and password, token or credentials file", redactURLs(o.URL), last)
		}
		if !warned {
			q.log.Warn("NATS does not answer yet, trying on; find out more with: sluice check --nats-url "+redactURLs(o.URL), "error", last)
			warned = true
		}
	}
}

func unreachableError(urls string, err error) error {
	return fmt.Errorf("connect to NATS at %s: %w; check that the address is right, that a server runs there (kubectl get pods -A -l app.kubernetes.io/name=sluice-nats) and that no network policy or TLS setting is in the way", redactURLs(urls), err)
}

func (q *Queue) natsOptions(o Options, connected chan<- struct{}, failed chan<- error) ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name(o.Name),
		nats.Timeout(5 * time.Second),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, 500*time.Millisecond),
		// With these the client notices a half-open connection within 20 s.
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.ConnectHandler(func(*nats.Conn) { trySend(connected, struct{}{}) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { trySend(failed, err) }),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if !nc.IsClosed() {
				q.log.Warn("the connection to NATS is lost, reconnecting", "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			q.log.Info("the connection to NATS is back", "server", nc.ConnectedUrlRedacted())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			q.denials.cancelDenied(err)
			q.log.Warn("NATS reports an error", "error", err)
		}),
	}
	if !q.existingOnly {
		// A password that is being rotated must not end a running process. The user of a guest connection must see the
		// error.
		opts = append(opts, nats.IgnoreAuthErrorAbort())
	}
	q.inbox = cmp.Or(o.InboxPrefix, "_INBOX")
	opts = append(opts, nats.CustomInboxPrefix(q.inbox))
	if o.CAFile != "" {
		opts = append(opts, nats.RootCAs(o.CAFile))
	}
	switch {
	case o.CredentialsFile != "":
		opts = append(opts, nats.UserCredentials(o.CredentialsFile))
	case o.Token != "":
		opts = append(opts, nats.Token(o.Token))
	case o.User != "":
		opts = append(opts, nats.UserInfo(o.User, o.Password))
	}
	if strings.TrimSpace(o.URL) == "" {
		return nil, errors.New("no address is given, use one like nats://127.0.0.1:4222")
	}
	return opts, nil
}

func trySend[T any](ch chan<- T, v T) {
	select {
	case ch <- v:
	default:
	}
}

// IsConnected reports whether NATS is reachable at this moment, for readiness probes.
func (q *Queue) IsConnected() bool { return q.nc.IsConnected() }

// Close sends the buffered messages, for at most a second, and ends the connection.
func (q *Queue) Close() {
	if q.nc.IsConnected() {
		if err := q.nc.FlushTimeout(time.Second); err != nil {
			q.log.Debug("flush before close", "error", err)
		}
	}
	q.nc.Close()
}

// redactURLs removes passwords from a comma-separated list of URLs.
func redactURLs(urls string) string {
	parts := strings.Split(urls, ",")
	for i, p := range parts {
		u, err := url.Parse(strings.TrimSpace(p))
		switch {
		case err != nil:
			parts[i] = "(an address that is not a URL)"
		case u.User != nil:
			u.User = url.User("xxxxx")
			parts[i] = u.String()
		}
	}
	return strings.Join(parts, ",")
}
