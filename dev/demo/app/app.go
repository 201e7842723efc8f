// Package app is a small web application as a demo needs it: real HTTP servers that answer as the pods of a version would, with
// metrics by client_golang and a ledger of what each version answered to whom. It is no simulation of latency or load: what it is
// told to do, it does to the requests that come. Its one invariant: each answer is counted once, by the version that gave it.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// UserHeader names the user who sends a request.
	UserHeader = "X-User"
	// VersionHeader names the version that answers.
	VersionHeader = "X-Version"
)

// Version is what a version of the application does.
type Version struct {
	Name string
	// FailEvery is that one request in so many is answered with 500; 0 means none.
	FailEvery int
	// Takes is how long an answer takes on average.
	Takes time.Duration
}

// Server answers for the pods of one Service.
type Server struct {
	ledger  *Ledger
	address string
	web     *http.Server
	ended   chan error
	pod     atomic.Pointer[pod]
}

// pod is a version that runs. Its counters begin at 0 with it.
type pod struct {
	version  Version
	sequence atomic.Int64
	metrics  http.Handler
	requests *prometheus.CounterVec
	seconds  prometheus.Histogram
}

// Start listens on a free port of this machine. No version runs yet. The server must be stopped.
func Start(ledger *Ledger) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for requests: %w", err)
	}
	s := &Server{ledger: ledger, address: listener.Addr().String(), ended: make(chan error, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", s.expose)
	mux.HandleFunc("/", s.answer)
	s.web = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { s.ended <- s.web.Serve(listener) }()
	return s, nil
}

// Address is the host and port.
func (s *Server) Address() string { return s.address }

// Run lets a version answer from now on, as new pods do. The version that runs already goes on.
func (s *Server) Run(v Version) {
	if p := s.pod.Load(); p == nil || p.version != v {
		s.pod.Store(newPod(v))
	}
}

// Halt leaves nobody to answer, as when the last pod is gone.
func (s *Server) Halt() { s.pod.Store(nil) }

// Stop ends the server after the answers that are under way.
func (s *Server) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := s.web.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.web.Close() // a connection on which nobody ever asked counts as busy for as long
	}
	if served := <-s.ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func newPod(v Version) *pod {
	labels := prometheus.Labels{"version": v.Name}
	p := &pod{
		version: v,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "http_requests_total", Help: "Requests answered, by status code.", ConstLabels: labels}, []string{"code"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "http_request_duration_seconds", Help: "How long answers took.", ConstLabels: labels,
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}}),
	}
	// A counter that appears with the first error hides that error from rates.
	p.requests.WithLabelValues(strconv.Itoa(http.StatusOK))
	p.requests.WithLabelValues(strconv.Itoa(http.StatusInternalServerError))
	registry := prometheus.NewRegistry()
	registry.MustRegister(p.requests, p.seconds)
	p.metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return p
}

func (s *Server) expose(w http.ResponseWriter, r *http.Request) {
	p := s.pod.Load()
	if p == nil {
		http.Error(w, "no pod runs here", http.StatusServiceUnavailable)
		return
	}
	p.metrics.ServeHTTP(w, r)
}

// lag is how long a request waits for a pod: what runs here follows one watch, and what is routed here another.
const lag = 2 * time.Second

// ready is the version that runs, nil when none does so in time.
func (s *Server) ready(ctx context.Context) *pod {
	ctx, cancel := context.WithTimeout(ctx, lag)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if p := s.pod.Load(); p != nil {
			return p
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return s.pod.Load()
		}
	}
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	p := s.ready(r.Context())
	began := time.Now()
	if p == nil {
		s.ledger.note("", r.Header.Get(UserHeader), false)
		http.Error(w, "no pod runs here", http.StatusServiceUnavailable)
		return
	}
	n := p.sequence.Add(1)
	// Half to one and a half times as long as on average, spread evenly.
	time.Sleep(p.version.Takes/2 + p.version.Takes*time.Duration(n%11)/10)
	code := http.StatusOK
	if p.version.FailEvery > 0 && n%int64(p.version.FailEvery) == 0 {
		code = http.StatusInternalServerError
	}
	s.ledger.note(p.version.Name, r.Header.Get(UserHeader), code == http.StatusOK)
	p.requests.WithLabelValues(strconv.Itoa(code)).Inc()
	p.seconds.Observe(time.Since(began).Seconds())
	w.Header().Set(VersionHeader, p.version.Name)
	w.WriteHeader(code)
	_, _ = io.WriteString(w, p.version.Name+"\n")
}
