//go:build linux

package live

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// steady is how often a request is sent all the time; patience is how long each may take.
	steady   = 5 * time.Millisecond
	patience = 5 * time.Second
	// users is how many send requests side by side.
	users = 8
)

// client sends requests to a gateway.
type client struct {
	transport *http.Transport
	url, host string
	// jar keeps cookies; nil for none.
	jar http.CookieJar
}

func newClient(url, host string) *client {
	return &client{transport: &http.Transport{MaxIdleConnsPerHost: users}, url: url, host: host}
}

// overTLS has requests come over TLS, for the host that they are for.
func (c *client) overTLS() {
	c.transport.TLSClientConfig = &tls.Config{ServerName: c.host, RootCAs: authority()}
	c.url = "https" + strings.TrimPrefix(c.url, "http")
}

// strangers are clients whose requests have a connection each. The workers of a gateway hear of a change one by one, and a connection is with
// one of them.
func (c *client) strangers() *client {
	alone := c.transport.Clone()
	alone.DisableKeepAlives = true
	return &client{transport: alone, url: c.url, host: c.host}
}

// ask sends a request and returns the version that answered.
func (c *client) ask(ctx context.Context, headers map[string]string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return "", err
	}
	r.Host = c.host
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	answer, err := (&http.Client{Timeout: patience, Transport: c.transport, Jar: c.jar}).Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return "", err
	case answer.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%s from %q: %s", answer.Status, answer.Header.Get(podName), body)
	case answer.Header.Get(version) == "":
		return "", fmt.Errorf("no backend has answered, but %s", body)
	}
	return answer.Header.Get(version), nil
}

// tally is how many answers came from each version.
type tally struct {
	mu       sync.Mutex
	answers  map[string]int
	failures []string
}

func (t *tally) count(version string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.failures = append(t.failures, time.Now().Format("15:04:05.000 ")+err.Error())
		return
	}
	t.answers[version]++
}

// says is what users would say of it: each version with the number of its answers.
func (t *tally) says() string {
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(t.answers)) {
		parts = append(parts, fmt.Sprintf("%s %d", v, t.answers[v]))
	}
	return strings.Join(parts, ", ")
}

// burst has strangers send n requests.
func (c *client) burst(ctx context.Context, n int, headers map[string]string) *tally {
	t := &tally{answers: map[string]int{}}
	left := make(chan struct{}, n)
	for range n {
		left <- struct{}{}
	}
	close(left)
	senders := c.strangers()
	var asking sync.WaitGroup
	for range users {
		asking.Go(func() {
			for range left {
				t.count(senders.ask(ctx, headers))
			}
		})
	}
	asking.Wait()
	return t
}

// stream sends requests until it is stopped, which is when the test ends at the latest. A gateway that answers late gets no more than
// one request of each user.
func (c *client) stream(t testing.TB) (stop func() *tally) {
	seen := &tally{answers: map[string]int{}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var asking sync.WaitGroup
	for range users {
		asking.Go(func() {
			tick := time.NewTicker(users * steady)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					seen.count(c.ask(context.WithoutCancel(ctx), nil))
				}
			}
		})
	}
	stop = sync.OnceValue(func() *tally {
		cancel()
		asking.Wait()
		return seen
	})
	t.Cleanup(func() { stop() })
	return stop
}
