package main

import (
	"context"
	"errors"
	"time"
)

// idle measures many Rollouts without a release. Their Deployments have no pods, so that the cluster is small enough for one machine. The controller does not
// read pods without a release.
func (b *bench) idle(ctx context.Context, shape shape) error {
	shape.replicas = 0
	result := &Idle{Rollouts: b.opts.idle, Load: loadAverage()}
	err := b.withParts(ctx, 1, func() error {
		began := time.Now()
		_, err := b.newSet(ctx, measureIdle, b.opts.idle, max(b.opts.namespaces, b.opts.idle/100), shape)
		result.Created = time.Since(began).Seconds()
		return err
	})
	if err != nil {
		return err
	}
	say("starting the components again with %d Rollouts", b.opts.idle)
	offset, began := b.log.end(), time.Now()
	if err := b.run(ctx, 1); err != nil {
		return err
	}
	defer func() { b.report.Idle = result }()
	return errors.Join(b.rest(ctx, result, offset, began), b.halt())
}

func (b *bench) rest(ctx context.Context, result *Idle, offset int64, began time.Time) error {
	meter := b.meter()
	if err := b.log.awaitQuiet(ctx, quietAfterStart); err != nil {
		return err
	}
	result.Start = (time.Since(began) - quietAfterStart).Seconds()
	var err error
	if result.StartTraffic, err = b.log.since(offset); err != nil {
		return err
	}
	result.AtStart, _ = meter.read()
	say("watching %d Rollouts at rest for %s", b.opts.idle, b.opts.idleWindow)
	offset, meter, began = b.log.end(), b.meter().forgetPeaks(), time.Now()
	select {
	case <-time.After(b.opts.idleWindow):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	result.Seconds = time.Since(began).Seconds()
	result.Processes, _ = meter.read()
	result.Traffic, err = b.log.since(offset)
	return err
}
