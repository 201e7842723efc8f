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
	// steady is the interval of the permanent requests; patience is the deadline of each request.
	steady   = 5 * time.Millisecond
	patience = 5 * time.Second
	// users is the number of users who send requests in parallel.
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

// overTLS makes the client send its requests over TLS, for their host.
func (c *client) overTLS() {
	c.transport.TLSClientConfig = &tls.Config{ServerName: c.host, RootCAs: authority()}
	c.url = "https" + strings.TrimPrefix(c.url, "http")
}

// strangers returns a client whose requests each have their own connection. The workers of a gateway learn of a change
// one by one, and each connection belongs to one of them.
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

// tally counts the answers of each version.
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

// says lists the versions with the number of their answers.
func (t *tally) says() string {
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(t.answers)) {
		parts = append(parts, fmt.Sprintf("%s %d", v, t.answers[v]))
	}
	return strings.Join(parts, ", ")
}

// burst sends n requests of strangers.
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

// stream sends requests until it is stopped, at the latest at the end of the test. A slow gateway gets at most one
// request of each user at a time.
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
