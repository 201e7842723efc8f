// Package app is a small web application for demos. It has real HTTP servers that answer like the pods of a version. They have metrics from client_golang, and
// a ledger of the answers of each version to each user. It does not simulate latency or load: it applies its settings to the incoming requests. Its one
// invariant: each answer counts once, for the version that gave it.
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

// Version describes the behaviour of a version of the application.
type Version struct {
	Name string
	// FailEvery n makes one of n requests fail with 500; 0 means none.
	FailEvery int
	// Takes is the average duration of an answer.
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

// pod is a running version. Its counters start at 0.
type pod struct {
	version  Version
	sequence atomic.Int64
	metrics  http.Handler
	requests *prometheus.CounterVec
	seconds  prometheus.Histogram
}

// Start listens on a free port of this machine. No version runs yet. The caller must stop the server.
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

// Address returns the host and port.
func (s *Server) Address() string { return s.address }

// Run makes a version answer from now on, like new pods. It has no effect on a version that already runs.
func (s *Server) Run(v Version) {
	if p := s.pod.Load(); p == nil || p.version != v {
		s.pod.Store(newPod(v))
	}
}

// Halt removes the version, as when the last pod is gone.
func (s *Server) Halt() { s.pod.Store(nil) }

// Stop ends the server after the open requests.
func (s *Server) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := s.web.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.web.Close() // a connection without a request counts as busy for as long
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
	// If a counter appears with the first error, rate misses that error.
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

// lag bounds the wait of a request for a pod, because pods and routes follow different watches.
const lag = 2 * time.Second

// ready returns the running version, or nil if none runs in time.
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
	// The duration is between half and one and a half times the average, evenly spread.
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
