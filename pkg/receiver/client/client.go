// Package client sends approvals to the receiver of a watcher. It does not receive approvals, and knows no flags.
//
// Invariant: it sends a token only to the given server, and follows no redirect.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
)

// Client sends approvals to one receiver.
type Client struct {
	// URL is the address of the receiver: https://host:port, or the complete address with /v1/events.
	URL string
	// CAFile holds the certificates of the authority of the receiver; empty means the certificates of the system.
	CAFile string
	// Token returns the token for the next request. The client calls it before each request.
	Token func(context.Context) (string, error)
	// Warn receives, at most once, the error that the client retries.
	Warn func(error)
}

// RefusedError is a refusal by the receiver itself, without an event.
type RefusedError struct {
	Refusal api.Refusal `json:"refusal"`
	Message string      `json:"message"`
}

func (r *RefusedError) Error() string { return fmt.Sprintf("%s: %s", r.Refusal, r.Message) }

// ErrUndecided means that the event may have arrived, and that no decision arrived in time.
var ErrUndecided = errors.New("it is not decided yet")

const (
	// hold is the time that one request waits for the decision: less than the timeouts of proxies.
	hold = 25 * time.Second
	// requestTime is the additional time that a request may take.
	requestTime = 15 * time.Second
	firstPause  = 250 * time.Millisecond
	lastPause   = 5 * time.Second
	maxAnswer   = 1 << 20
)

// SendEvent sends an event until the receiver has accepted it or ctx ends. With wait it continues until the decision is known, and returns the event with the
// decision.
func (c *Client) SendEvent(ctx context.Context, e event.Event, wait bool) (*event.Event, error) {
	address, err := c.eventsURL()
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	client, err := c.newHTTPClient()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	sent, warned := false, false
	for pause := firstPause; ; {
		request := *address
		if wait {
			request.RawQuery = url.Values{"wait": {decisionWait(ctx).String()}}.Encode()
		}
		r, err := c.postEvent(ctx, client, request.String(), body)
		sent = sent || r.sent
		switch {
		case err == nil && r.decided != nil:
			return r.decided, nil
		case err == nil && !wait:
			return nil, nil
		case err == nil:
			pause = firstPause
		case !r.retryable:
			return nil, err
		case !warned && ctx.Err() == nil:
			c.Warn(err)
			warned = true
		}
		select {
		case <-ctx.Done():
			if sent {
				return nil, ErrUndecided
			}
			return nil, err
		case <-time.After(max(pause, r.retryAfter)):
			pause = min(2*pause, lastPause)
		}
	}
}

// decisionWait returns the time that the receiver should wait for the decision. It ends early enough for an answer before ctx ends.
func decisionWait(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return hold
	}
	left := time.Until(deadline)
	return min(hold, max(time.Millisecond, left-min(left/4, time.Second))).Truncate(time.Millisecond)
}

// reply is the result of one request.
type reply struct {
	decided *event.Event
	// sent: the receiver has the event, or may have it because it was reached and did not answer.
	sent bool
	// retryable: the same request may succeed later, but not before retryAfter has passed.
	retryable  bool
	retryAfter time.Duration
}

func (c *Client) postEvent(ctx context.Context, client *http.Client, address string, body []byte) (reply, error) {
	response, answer, r, err := c.exchange(ctx, client, http.MethodPost, address, body)
	if err != nil {
		return r, err
	}
	return readReply(response, answer)
}

// exchange sends one request, and returns the answer with its body. The reply says what is known if there is no answer.
func (c *Client) exchange(ctx context.Context, client *http.Client, method, address string, body []byte) (*http.Response, []byte, reply, error) {
	token, err := c.Token(ctx)
	if err != nil {
		return nil, nil, reply{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, hold+requestTime)
	defer cancel()
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, nil, reply{}, fmt.Errorf("send event: %w", err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/cloudevents+json")
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if err != nil {
		var unknown *tls.CertificateVerificationError
		return nil, nil, reply{sent: sent.Load(), retryable: !errors.As(err, &unknown)}, fmt.Errorf("send event: %w", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, nil, reply{sent: true, retryable: true}, fmt.Errorf("read the answer of %s: %w", address, err)
	}
	return response, answer, reply{}, nil
}

func readReply(response *http.Response, body []byte) (reply, error) {
	switch response.StatusCode {
	case http.StatusOK, http.StatusConflict:
		e, err := event.Decode(response.Header, body)
		if err == nil && e.Type() != event.TypeDecided {
			err = fmt.Errorf("its type is %s", e.Type())
		}
		if err != nil {
			return reply{}, fmt.Errorf("%s does not answer as the approval receiver of Sluice does: %w; check the address", response.Request.URL.Host, err)
		}
		return reply{decided: &e}, nil
	case http.StatusAccepted:
		return reply{sent: true}, nil
	}
	return readProblem(response, body)
}

// readProblem reads an answer that is neither a decision nor the promise of one.
func readProblem(response *http.Response, body []byte) (reply, error) {
	var told RefusedError
	_ = json.Unmarshal(body, &told) // a body other than JSON is reported by its status alone
	if told.Refusal != "" && response.StatusCode < 500 {
		return reply{}, &told
	}
	err := fmt.Errorf("%s answers %s: %s", response.Request.URL.Host, response.Status, cmp.Or(told.Message, "no reason is given"))
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	again := response.StatusCode == http.StatusTooManyRequests || response.StatusCode >= 500
	// A proxy that has forwarded the event answers 502 or 504. The receiver answers 504 when NATS does not answer.
	sent := response.StatusCode == http.StatusBadGateway || response.StatusCode == http.StatusGatewayTimeout
	return reply{sent: sent, retryable: again, retryAfter: min(time.Duration(seconds)*time.Second, time.Minute)}, err
}

// eventsURL returns the address for events.
func (c *Client) eventsURL() (*url.URL, error) {
	u, err := c.serverURL()
	if err == nil {
		u.Path += "/v1/events"
	}
	return u, err
}

// serverURL returns the address of the receiver, without /v1/events.
func (c *Client) serverURL() (*url.URL, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("%q is no address of an approval receiver: give one like https://HOST:PORT", c.URL)
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1/events")
	return u, nil
}

func (c *Client) newHTTPClient() (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read certificates of the receiver: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read certificates of the receiver: %s has no certificate", c.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}
