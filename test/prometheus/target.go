package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

const (
	// look is the interval of Scraped's queries.
	look = 20 * time.Millisecond
	// aligned is how far Prometheus may move the time of a scrape, so that timestamps are evenly spaced.
	aligned = 2 * time.Millisecond
)

// Target is an exporter to scrape at /metrics.
type Target struct {
	// Address is the host and port; it becomes the label instance.
	Address string
	// Labels are put on every series of the target. Without a label job, it is "targets".
	Labels map[string]string
}

// Scrape replaces the targets. Series of removed targets go stale. Prometheus applies the change within milliseconds,
// and scrapes a new target at some moment of the first interval.
func (s *Server) Scrape(targets ...Target) error {
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels,omitempty"`
	}
	groups := []group{}
	for _, t := range targets {
		groups = append(groups, group{Targets: []string{t.Address}, Labels: t.Labels})
	}
	text, err := json.Marshal(groups)
	if err != nil {
		return fmt.Errorf("encode the targets: %w", err)
	}
	// Prometheus must not read half a file.
	if err := os.WriteFile(s.targets+".new", text, 0o600); err != nil {
		return fmt.Errorf("write the targets: %w", err)
	}
	if err := os.Rename(s.targets+".new", s.targets); err != nil {
		return fmt.Errorf("replace the targets: %w", err)
	}
	return nil
}

// Scraped returns when each address was scraped with success since the call and a query sees the result.
func (s *Server) Scraped(ctx context.Context, addresses ...string) error {
	since := time.Now().Add(aligned)
	client, err := api.NewClient(api.Config{Address: s.Address})
	if err != nil {
		return fmt.Errorf("make a client of Prometheus: %w", err)
	}
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		missing, err := unscraped(ctx, v1.NewAPI(client), since, addresses)
		if err == nil && missing == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s was scraped: %w", missing, errors.Join(ctx.Err(), err))
		case <-ticker.C:
		}
	}
}

// unscraped returns an address whose newest sample of `up` is too old or not 1, or "".
func unscraped(ctx context.Context, asked v1.API, since time.Time, addresses []string) (string, error) {
	// Only for a plain selector, timestamp returns the time of a sample; otherwise it returns the time of the query.
	result, _, _, err := asked.Query(ctx, "timestamp(up) and up == 1", time.Time{})
	if err != nil {
		return strings.Join(addresses, ", "), err
	}
	seen := map[string]bool{}
	if vector, ok := result.(model.Vector); ok {
		for _, sample := range vector {
			at := time.UnixMilli(int64(float64(sample.Value) * 1000))
			seen[string(sample.Metric[model.InstanceLabel])] = at.After(since)
		}
	}
	for _, address := range addresses {
		if !seen[address] {
			return address, nil
		}
	}
	return "", nil
}
