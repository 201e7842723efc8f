package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// stopped releases a version and shows how its metrics stop it and remove its traffic.
func (p *shop) stopped(ctx context.Context, version string) error {
	if err := p.release(ctx, version); err != nil {
		return err
	}
	if err := p.divided(ctx, 1, shares()[0]); err != nil {
		return err
	}
	var failed *api.MetricStatus
	if err := p.await(ctx, stableService, func(st api.RolloutStatus) bool {
		failed = failing(st)
		return failed != nil && rollout.State(st.Sluice.GetState()) == rollout.StateAborted
	}); err != nil {
		return err
	}
	table, back, err := p.routed(ctx, 0)
	if err != nil {
		return err
	}
	p.tell(failed.LastTime.Time, "%s: %s", failed.Name, failed.Message)
	p.tell(back, "the router sends all requests back: %s; %.2f s after that measurement", table, back.Sub(failed.LastTime.Time).Seconds())
	return p.damage(ctx, version, failed.LastTime.Time)
}

// failing returns the metric that stopped the release.
func failing(st api.RolloutStatus) *api.MetricStatus {
	if st.Analysis == nil {
		return nil
	}
	for _, run := range []*api.AnalysisRun{st.Analysis.Release, st.Analysis.Step} {
		if run == nil || run.Phase != api.AnalysisFailed {
			continue
		}
		for _, m := range run.Metrics {
			if m.Phase == api.MetricFailed && m.LastTime != nil {
				return &m
			}
		}
	}
	return nil
}

// damage prints the effects of a bad version, according to the servers and to Prometheus.
func (p *shop) damage(ctx context.Context, version string, failed time.Time) error {
	if err := p.more(ctx, "v2", p.rate); err != nil { // a second in which the version could still answer
		return err
	}
	if err := p.prometheus.Scraped(ctx, p.stable.Address(), p.canary.Address()); err != nil {
		return err
	}
	bad := p.ledger.Of(version)
	p.say("  Counted at the servers: %s Its last answer came at most %.2f s after that measurement.", p.account(version),
		max(0, math.Ceil(bad.Last.Sub(failed).Seconds()*100)/100))
	seen, err := p.ask(ctx, fmt.Sprintf(`sum(http_requests_total{version=%q,code="500"})`, version))
	if err != nil {
		return err
	}
	p.say("  Read from Prometheus: %.0f errors of %s.", seen, version)
	if int(seen) != bad.Errors {
		return fmt.Errorf("the servers counted %d errors of %s, and Prometheus %.0f", bad.Errors, version, seen)
	}
	return nil
}
