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

// deadlineTransport sends no request after its deadline. After a stopped process goes on, the timer that ends a context
// fires only some time later. The request would be on its way by then, so the connections check the clock last of all.
type deadlineTransport struct {
	next   http.RoundTripper
	unsent *unsentRequests
}

// unsentRequests has the deadlines of the requests that are not on the wire yet.
type unsentRequests struct {
	mu        sync.Mutex
	deadlines map[*http.Request]time.Time
}

// NewHTTPClient returns the HTTP client of a config. The client sends no request after its deadline. When the API
// server asks it to wait, it returns an error and does not wait.
func NewHTTPClient(cfg *rest.Config) (*http.Client, error) {
	waiting := &unsentRequests{deadlines: map[*http.Request]time.Time{}}
	cfg = rest.CopyConfig(cfg)
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext // the client library's own values
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
			_ = r.Body.Close() // a RoundTripper must close the body; an error changes nothing here
		}
		return nil, context.DeadlineExceeded
	}
	p.unsent.addRequest(r, deadline)
	defer p.unsent.removeRequest(r)
	trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { p.unsent.removeRequest(r) }}
	return p.next.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
}

// WrappedRoundTripper returns the wrapped transport to the client library.
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

// hasLateRequest reports whether the deadline of any unsent request has passed.
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

// DeadlinePassed reports whether a time has passed on the monotonic clock or on the wall clock. The monotonic clock
// stands still while a machine sleeps.
func DeadlinePassed(t time.Time) bool {
	now := time.Now()
	return !now.Before(t) || !now.Round(0).Before(t.Round(0))
}

// deadlineConn is a connection that breaks before it carries a late request. Many requests share the connection, and it
// cannot tell whose bytes it writes. So the other requests on it break too, and the client retries them.
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

// CallDeadline bounds each call to the API server, together with the retries that the server asked for.
const CallDeadline = 10 * time.Second

// WithDeadline runs one call under the deadline.
func WithDeadline[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, CallDeadline)
	defer cancel()
	return call(ctx)
}
