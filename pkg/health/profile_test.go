package health

import (
	"context"
	"log/slog"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestProfilesAreServedOnlyWhenAskedFor(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{false, true} {
		s, err := Listen("127.0.0.1:0", prometheus.NewRegistry(), nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		status := http.StatusNotFound
		if asked {
			s.EnableProfiling()
			status = http.StatusOK
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		wantAnswer(t, s, "/debug/pprof/", status, "")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
