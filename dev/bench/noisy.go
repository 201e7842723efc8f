package main

import (
	"context"
	"time"
)

// quietReleases is the number of releases of the tenant whose steps are measured.
const quietReleases = 5

// maxRounds bounds the measurements of each.
const maxRounds = 4

// noisy measures the steps of a tenant with few releases, first alone and then while another tenant has many under way.
func (b *bench) noisy(ctx context.Context, shape shape) error {
	loud := b.opts.releases[0]
	quiet, err := b.newSet(ctx, "quiet", quietReleases, 1, shape)
	if err != nil {
		return err
	}
	noise, err := b.newSet(ctx, "noise", loud, b.opts.namespaces, shape)
	if err != nil {
		return err
	}
	result := &Noisy{Quiet: quietReleases, Noisy: loud, Load: loadAverage()}
	say("%d releases of a quiet tenant, alone", quietReleases)
	var alone, beside times
	rounds := min(maxRounds, b.opts.repeat)
	for range rounds {
		w, err := quiet.fly(ctx, b.client, quiet.rollouts)
		if err != nil {
			return err
		}
		alone.add(w)
	}
	say("and with %d releases of a noisy tenant", loud)
	for range rounds {
		if err := b.log.awaitQuiet(ctx, quietFor); err != nil {
			return err
		}
		done := make(chan error, 1)
		go func() {
			_, err := noise.fly(ctx, b.client, noise.rollouts)
			done <- err
		}()
		select {
		case <-time.After(noiseAhead):
		case <-ctx.Done():
		}
		w, err := quiet.fly(ctx, b.client, quiet.rollouts)
		if noise := <-done; err == nil {
			err = noise
		}
		if err != nil {
			return err
		}
		beside.add(w)
	}
	result.Alone, result.Beside = latency(alone.steps()), latency(beside.steps())
	b.report.Noisy = result
	return nil
}

// noiseAhead is the lead of the noisy tenant, so that its work is queued first.
const noiseAhead = 200 * time.Millisecond
