package health

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestTheServerTellsWhetherTheProcessCanWork(t *testing.T) {
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_test_total", Help: "A counter."})
	registry := prometheus.NewRegistry()
	registry.MustRegister(counter)
	problem := errors.New("not connected")
	checks := map[string]Check{"nats": func() error { return problem }}
	s, err := Listen("127.0.0.1:0", registry, checks, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()

	wantAnswer(t, s, "/healthz", http.StatusOK, "ok")
	wantAnswer(t, s, "/readyz", http.StatusServiceUnavailable, "nats: not connected")
	problem = nil
	wantAnswer(t, s, "/readyz", http.StatusOK, "ok")
	wantAnswer(t, s, "/metrics", http.StatusOK, "sluice_test_total 0")

	cancel()
	if err := <-done; err != nil {
		t.Errorf("the end of a server that was told to stop is an error: %v", err)
	}
}

func TestAnAddressInUseIsToldWithTheFlagToChange(t *testing.T) {
	s, err := Listen("127.0.0.1:0", prometheus.NewRegistry(), nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.listener.Close()
	if _, err := Listen(s.Address(), prometheus.NewRegistry(), nil, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--health-address") {
		t.Errorf("the error does not name the flag: %v", err)
	}
}

func wantAnswer(t *testing.T, s *Server, path string, status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Address()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != status || !strings.Contains(string(body), text) {
		t.Errorf("%s answers %d %q, want %d with %q", path, answer.StatusCode, body, status, text)
	}
}
