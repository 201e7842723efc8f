package main

import (
	"context"
	"fmt"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

func (p *shop) release(ctx context.Context, version string) error {
	return p.kubectl(ctx, "set", "image", "deployment/shop", "shop=shop:"+version)
}

// promoted releases a version and shows how its metrics promote it through all steps.
func (p *shop) promoted(ctx context.Context, version string) error {
	if err := p.release(ctx, version); err != nil {
		return err
	}
	for i, share := range shares() {
		if err := p.step(ctx, int32(i+1), share, version); err != nil {
			return err
		}
	}
	if err := p.await(ctx, stableService, healthy); err != nil {
		return err
	}
	if err := p.without(ctx, canaryService); err != nil {
		return err
	}
	p.tell(time.Now(), "released: %s", p.account(version))
	return p.kubectl(ctx, "get", "rollout", "shop", "-o", "jsonpath=approved by: {.status.approvals[*].actor}")
}

// step shows one step that ends by its metrics.
func (p *shop) step(ctx context.Context, step int32, share float64, version string) error {
	if err := p.divided(ctx, step, share); err != nil {
		return err
	}
	before, all := p.ledger.Of(version), p.ledger.Total()
	metrics, last := "", api.RolloutStatus{}
	if err := p.await(ctx, stableService, func(st api.RolloutStatus) bool {
		if a := st.Analysis; a != nil && a.Step != nil && a.Step.Step == step && len(a.Step.Metrics) > 0 {
			metrics = a.Step.Metrics[0].Name + ": " + a.Step.Metrics[0].Message
		}
		last = st
		switch rollout.State(st.Sluice.GetState()) {
		case rollout.StateFinalising, rollout.StateIdle, rollout.StateAborted:
			return true
		}
		return st.CurrentStepIndex > step
	}); err != nil {
		return err
	}
	if rollout.State(last.Sluice.GetState()) == rollout.StateAborted {
		return fmt.Errorf("%s was stopped: %s", version, last.Message)
	}
	now := p.ledger.Of(version)
	p.tell(time.Now(), "step %d: %s answered %d of %d requests, %d with an error. %s",
		step, version, now.Requests-before.Requests, p.ledger.Total()-all, now.Errors-before.Errors, metrics)
	return nil
}

// divided waits until the requests are divided as in the step, and prints that.
func (p *shop) divided(ctx context.Context, step int32, share float64) error {
	table, since, err := p.routed(ctx, share)
	if err != nil {
		return err
	}
	p.tell(since, "step %d: the router divides the requests: %s", step, table)
	return nil
}
