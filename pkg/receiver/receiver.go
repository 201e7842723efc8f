// Package receiver accepts approvals over HTTP from clients with a Kubernetes identity and without NATS: POST /v1/events takes CloudEvents, in binary,
// structured and batched mode.
//
// It decides nothing about releases and writes nothing to the cluster. It authenticates the caller, checks that the caller may approve the Rollout, or release
// or approve the FleetRollout, and sends the event to NATS; executors decide. It also tells how far the release of a FleetRollout is. Its one invariant: the
// principal of each event that it sends to NATS is the user whom the API server named for the token. It sends the event only after the API server has allowed
// this user to do so.
package receiver

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice.dev/sluice/pkg/queue"
)

// AccessControl authenticates and authorizes callers. Errors other than ErrUnauthenticated are temporary: the caller can retry.
type AccessControl interface {
	// Authenticate returns the caller with this bearer token; ErrUnauthenticated for an invalid token.
	Authenticate(ctx context.Context, token string) (Caller, error)
	// Authorize reports whether a caller has a permission.
	Authorize(ctx context.Context, c Caller, p Permission) (bool, error)
}

// ErrUnauthenticated means that a token is not valid.
var ErrUnauthenticated = errors.New("the token is not valid")

// Options configure a receiver.
type Options struct {
	// ClusterName is the name of the only cluster whose Rollouts this receiver approves.
	ClusterName   string
	AccessControl AccessControl
	// Fleets reads the releases of a fleet's hub.
	Fleets     FleetReader
	Queue      *queue.Queue
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

const (
	// maxBody bounds the bytes, and maxBatch the events, of one request.
	maxBody  = 1 << 20
	maxBatch = 100
	// maxWait bounds ?wait=.
	maxWait = 10 * time.Minute
	// maxRequests bounds the requests in parallel, and maxPerCaller the requests of one caller.
	maxRequests  = 512
	maxPerCaller = 64
	// askTime bounds one exchange with the API server or with NATS.
	askTime = 10 * time.Second
	// retryAfter is the delay in Retry-After for temporary errors.
	retryAfter = 2 * time.Second
)

// Receiver is the HTTP handler. Create it with New.
type Receiver struct {
	Options
	mux      *http.ServeMux
	slots    chan struct{}
	requests *prometheus.CounterVec

	mu sync.Mutex
	// openRequests counts the open requests of each caller.
	openRequests map[string]int
}

// New creates a receiver.
func New(o Options) *Receiver {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Receiver{
		Options: o, mux: http.NewServeMux(), slots: make(chan struct{}, maxRequests), openRequests: map[string]int{},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_receiver_requests_total", Help: "Events that came to the receiver, by the HTTP status they were answered with.",
		}, []string{"status"}),
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(d.requests)
	}
	d.mux.HandleFunc("POST /v1/events", d.serveEvents)
	d.mux.HandleFunc("GET /v1/namespaces/{namespace}/fleetrollouts/{name}/release", d.serveRelease)
	d.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/events" {
			w.Header().Set("Allow", http.MethodPost)
			d.refuseRequest(w, http.StatusMethodNotAllowed, "Send events with POST.")
			return
		}
		d.refuseRequest(w, http.StatusNotFound, "There is nothing here; send events with POST to /v1/events.")
	})
	return d
}

func (d *Receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
		d.mux.ServeHTTP(w, r)
	default:
		d.writeRetryLater(w, http.StatusTooManyRequests, "Too many requests are being served; send the same event again in a moment.")
	}
}

// admitCaller counts one more request of a caller, and reports whether the limit allows it.
func (d *Receiver) admitCaller(user string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.openRequests[user] >= maxPerCaller {
		return false
	}
	d.openRequests[user]++
	return true
}

func (d *Receiver) releaseCaller(user string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.openRequests[user]--; d.openRequests[user] == 0 {
		delete(d.openRequests, user)
	}
}
