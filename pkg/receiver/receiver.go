// Package receiver lets approvals into the system over HTTP, for those who have a Kubernetes identity and no NATS: POST /v1/events
// takes CloudEvents, in binary, structured and batched mode.
//
// It decides nothing about releases and writes nothing to the cluster: it says who is asking, whether that one may approve the
// Rollout, and hands the event on; executors decide. Its one invariant: what goes to NATS carries as principal the user whom the
// API server named for the token, and only after the API server has said that this user may approve this Rollout.
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

// AccessControl knows callers and what they may do. Its errors, other than ErrUnauthenticated, mean that it cannot tell now.
type AccessControl interface {
	// Authenticate is the caller with this bearer token; ErrUnauthenticated if it is nobody's.
	Authenticate(ctx context.Context, token string) (Caller, error)
	// Authorize reports whether a caller may approve the Rollout.
	Authorize(ctx context.Context, c Caller, namespace, name string) (bool, error)
}

// ErrUnauthenticated says that a token is not valid.
var ErrUnauthenticated = errors.New("the token is not valid")

// Options of a receiver.
type Options struct {
	// ClusterName is the name of the only cluster whose Rollouts are approved here.
	ClusterName   string
	AccessControl AccessControl
	Queue         *queue.Queue
	Logger        *slog.Logger
	Registerer    prometheus.Registerer
}

const (
	// maxBody and maxBatch bound what one request may bring.
	maxBody  = 1 << 20
	maxBatch = 100
	// maxWait bounds ?wait=.
	maxWait = 10 * time.Minute
	// maxRequests are served at once, maxPerCaller of them for one caller.
	maxRequests  = 512
	maxPerCaller = 64
	// askTime bounds one exchange with the API server or with NATS.
	askTime = 10 * time.Second
	// retryAfter is what callers are told who come at a bad moment.
	retryAfter = 2 * time.Second
)

// Receiver is the HTTP handler. Make it with New.
type Receiver struct {
	Options
	mux      *http.ServeMux
	slots    chan struct{}
	requests *prometheus.CounterVec

	mu sync.Mutex
	// openRequests counts the requests of each caller.
	openRequests map[string]int
}

// New makes a receiver.
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

// admitCaller admits one more request of a caller, and reports whether it may come in.
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
