package apiclient

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// deadlineTransport sends no request whose deadline has passed. The timer that ends a context fires only some time after a stopped process goes on,
// and by then the request would be on its way. So its connections look at the clock last of all.
type deadlineTransport struct {
	next   http.RoundTripper
	unsent *unsentRequests
}

// unsentRequests are the deadlines of requests that are not on the wire yet.
type unsentRequests struct {
	mu        sync.Mutex
	deadlines map[*http.Request]time.Time
}

// NewHTTPClient makes the client of a config. It sends no request after its deadline, and does not wait for an API server that asks to come back later.
func NewHTTPClient(cfg *rest.Config) (*http.Client, error) {
	waiting := &unsentRequests{deadlines: map[*http.Request]time.Time{}}
	cfg = rest.CopyConfig(cfg)
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext // as the client library has it
	}
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return deadlineConn{conn, waiting}, nil
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	client.Transport = throttleTransport{deadlineTransport{client.Transport, waiting}}
	return client, nil
}

// RoundTrip sends the request, or fails with [context.DeadlineExceeded] or [os.ErrDeadlineExceeded].
func (p deadlineTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	deadline, ok := r.Context().Deadline()
	if !ok {
		return p.next.RoundTrip(r)
	}
	if DeadlinePassed(deadline) {
		if r.Body != nil {
			_ = r.Body.Close() // as a RoundTripper must; what it says changes nothing
		}
		return nil, context.DeadlineExceeded
	}
	p.unsent.addRequest(r, deadline)
	defer p.unsent.removeRequest(r)
	trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { p.unsent.removeRequest(r) }}
	return p.next.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
}

// WrappedRoundTripper lets the client library see through it.
func (p deadlineTransport) WrappedRoundTripper() http.RoundTripper { return p.next }

func (u *unsentRequests) addRequest(r *http.Request, deadline time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.deadlines[r] = deadline
}

func (u *unsentRequests) removeRequest(r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.deadlines, r)
}

// hasLateRequest reports whether the deadline of any has passed.
func (u *unsentRequests) hasLateRequest() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, deadline := range u.deadlines {
		if DeadlinePassed(deadline) {
			return true
		}
	}
	return false
}

// DeadlinePassed reports whether a time has passed, by whichever clock: the one that cannot be set stands still while a machine sleeps.
func DeadlinePassed(t time.Time) bool {
	now := time.Now()
	return !now.Before(t) || !now.Round(0).Before(t.Round(0))
}

// deadlineConn is a connection that breaks rather than carry a late request. All other requests on it break as well, and the client retries them:
// many requests share a connection, and the bytes of one cannot be told from the others'.
type deadlineConn struct {
	net.Conn
	unsent *unsentRequests
}

func (w deadlineConn) Write(b []byte) (int, error) {
	if w.unsent.hasLateRequest() {
		_ = w.Close()
		return 0, fmt.Errorf("a request is too late to be sent: %w", os.ErrDeadlineExceeded)
	}
	return w.Conn.Write(b)
}

// CallDeadline bounds each call to the API server, retries that the server asked for included.
const CallDeadline = 10 * time.Second

// WithDeadline runs one call under the deadline.
func WithDeadline[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, CallDeadline)
	defer cancel()
	return call(ctx)
}
