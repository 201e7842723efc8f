// Package health serves the endpoints of a process for operators: /healthz (it lives), /readyz (it can work) and /metrics (Prometheus). It is not an
// API for users. It listens only on the configured address.
package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Check returns nil if one dependency of a process is available, otherwise the problem.
type Check func() error

// Server answers on one address.
type Server struct {
	listener net.Listener
	server   *http.Server
	mux      *http.ServeMux
	log      *slog.Logger
}

// Listen opens the address, such as 127.0.0.1:0. The checks, by name, decide /readyz.
func Listen(address string, gatherer prometheus.Gatherer, checks map[string]Check, log *slog.Logger) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for health and metrics: %w; choose another address with --health-address", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { writeReadiness(w, checks) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{}))
	return &Server{
		listener: listener, log: log, mux: mux,
		server: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second},
	}, nil
}

// Address is the address on which the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Run serves until ctx is done.
func (s *Server) Run(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- s.server.Serve(s.listener) }()
	s.log.Info("serving health and metrics", "address", s.Address())
	select {
	case err := <-done:
		return fmt.Errorf("serve health and metrics: %w", err)
	case <-ctx.Done():
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := s.server.Shutdown(bound); err != nil {
		return fmt.Errorf("stop serving health and metrics: %w", err)
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func writeReadiness(w http.ResponseWriter, checks map[string]Check) {
	var problems []string
	for name, check := range checks {
		if err := check(); err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", name, err))
		}
	}
	if len(problems) == 0 {
		fmt.Fprintln(w, "ok")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	for _, p := range problems {
		fmt.Fprintln(w, p)
	}
}
