package metric

import (
	"crypto/sha256"
	"net/http"
	"sync"
	"time"
)

const (
	// maxTransports bounds the number of cached certificate sets with their connections.
	maxTransports  = 256
	idleConns      = 16
	idleTimeout    = 90 * time.Second
	maxHeaderBytes = 64 << 10
)

// transports cache connections, separately for each set of certificates. A connection that was made with one tenant's key must not carry another
// tenant's query.
type transports struct {
	dialer *dialer

	mu    sync.Mutex
	known map[[sha256.Size]byte]*keptTransport
}

type keptTransport struct {
	*http.Transport
	used time.Time
}

func (t *transports) transportFor(s security, now time.Time) *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept, ok := t.known[s.digest]
	if !ok {
		t.dropIdle(now)
		kept = &keptTransport{Transport: t.newTransport(s)}
		t.known[s.digest] = kept
	}
	kept.used = now
	return kept.Transport
}

func (t *transports) newTransport(s security) *http.Transport {
	return &http.Transport{
		// No proxy: a proxy would reach forbidden addresses.
		Proxy:                  nil,
		DialContext:            t.dialer.dialAllowed,
		TLSClientConfig:        s.config,
		TLSHandshakeTimeout:    dialTimeout,
		MaxIdleConnsPerHost:    idleConns,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		ForceAttemptHTTP2:      true,
	}
}

// dropIdle drops transports that have been idle for a while. If too many remain, it also drops the one with the oldest use. Queries under way keep
// their connection.
func (t *transports) dropIdle(now time.Time) {
	var oldest [sha256.Size]byte
	for digest, kept := range t.known {
		if now.Sub(kept.used) > idleTimeout {
			t.dropTransport(digest)
		} else if o, ok := t.known[oldest]; !ok || kept.used.Before(o.used) {
			oldest = digest
		}
	}
	if len(t.known) >= maxTransports {
		t.dropTransport(oldest)
	}
}

func (t *transports) dropTransport(digest [sha256.Size]byte) {
	if kept, ok := t.known[digest]; ok {
		kept.CloseIdleConnections()
		delete(t.known, digest)
	}
}

func (t *transports) closeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for digest := range t.known {
		t.dropTransport(digest)
	}
}
