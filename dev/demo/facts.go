package main

import (
	"context"
	"fmt"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"sluice.dev/sluice/dev/demo/router"
)

// patience bounds the wait of the demo for one fact. It is long because the machine may be busy; nothing waits for its end.
const patience = 5 * time.Minute

// tell prints an event with its time.
func (s *show) tell(at time.Time, format string, args ...any) {
	s.say("  %s  %s", at.Local().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// routed waits until the router gives the canary a share, and returns the time of that change.
func (p *shop) routed(ctx context.Context, share float64) (router.Table, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return p.router.Await(ctx, func(t router.Table) bool {
		return t.Share(canaryService) == share && (share > 0 || !t.Reaches(canaryService))
	})
}

// without waits until a Deployment is deleted.
func (p *shop) without(ctx context.Context, deployment string) error {
	_, err := p.cluster.Kubectl(ctx, "wait", "--for=delete", "deployment/"+deployment, "--timeout", patience.String())
	return err
}

// more waits until a version has answered the given number of further requests.
func (p *shop) more(ctx context.Context, version string, requests int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for enough := p.ledger.Of(version).Requests + requests; p.ledger.Of(version).Requests < enough; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for requests to %s: %w", version, ctx.Err())
		case <-look.C:
		}
	}
	return nil
}

// ask returns the value of a query with one value.
func (p *shop) ask(ctx context.Context, query string) (float64, error) {
	client, err := promapi.NewClient(promapi.Config{Address: p.prometheus.Address})
	if err != nil {
		return 0, fmt.Errorf("make a client of Prometheus: %w", err)
	}
	value, _, _, err := promv1.NewAPI(client).Query(ctx, query, time.Time{})
	if err != nil {
		return 0, fmt.Errorf("ask Prometheus for %s: %w", query, err)
	}
	found, ok := value.(model.Vector)
	if !ok || len(found) != 1 {
		return 0, fmt.Errorf("ask Prometheus for %s: it has no single value: %v", query, value)
	}
	return float64(found[0].Value), nil
}
