package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// bench is one run of this program.
type bench struct {
	*site
	report *Report
	log    auditLog
	sets   []*rolloutSet
}

// cleanLimit bounds the cleanup after any end of the bench.
const cleanLimit = 3 * time.Minute

// measure makes the measurements of the options. The report holds the results before an error, and is nil without results.
func measure(ctx context.Context, opts options) (*Report, error) {
	report := newReport(opts)
	var err error
	if opts.measures(measureScript) {
		report.Scripts, err = measureScripts(ctx)
	}
	if err == nil && slices.ContainsFunc(opts.what, func(what string) bool { return what != measureScript }) {
		err = measureSite(ctx, opts, report)
	}
	report.Seconds = time.Since(report.Began).Seconds()
	report.judge()
	if err != nil && report.empty() {
		return nil, err
	}
	return report, err
}

func measureSite(ctx context.Context, opts options, report *Report) error {
	s, err := openSite(ctx, opts)
	if err == nil {
		b := &bench{site: s, report: report, log: auditLog{path: s.audit, users: opts.users}}
		err = b.all(ctx)
		err = errors.Join(err, b.clean(ctx))
	}
	return errors.Join(err, s.close())
}

// clean removes the created objects from a cluster that stays.
func (b *bench) clean(ctx context.Context) error {
	if b.cluster != nil {
		return nil // the whole cluster ends
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), cleanLimit, fmt.Errorf("it took longer than %s", cleanLimit))
	defer cancel()
	var errs []error
	for _, f := range b.sets {
		errs = append(errs, f.remove(ctx, b.client))
	}
	return errors.Join(errs...)
}

func (b *bench) all(ctx context.Context) error {
	shape := shape{replicas: b.opts.replicas, steps: b.opts.steps, grace: b.opts.grace, style: b.opts.styles[0]}
	if b.opts.measures(measureFloor) {
		if err := b.floor(ctx); err != nil {
			return err
		}
	}
	for _, style := range b.opts.styles {
		shape := shape
		shape.style = style
		if err := b.releases(ctx, shape); err != nil {
			return err
		}
	}
	if b.opts.measures(measureNoisy) {
		if err := b.withParts(ctx, 1, func() error { return b.noisy(ctx, shape) }); err != nil {
			return err
		}
	}
	if b.opts.measures(measureIdle) {
		if err := b.idle(ctx, shape); err != nil {
			return err
		}
	}
	if b.opts.measures(measureFleet) {
		if err := b.fleet(ctx, shape); err != nil {
			return err
		}
	}
	if b.opts.measures(measureAnalysis) {
		return b.analyses(ctx)
	}
	return nil
}

// releases measures the releases of one style, alone and in parallel.
func (b *bench) releases(ctx context.Context, shape shape) error {
	if b.opts.measures(measureFloor) {
		if err := b.floorAtOnce(ctx, shape); err != nil {
			return err
		}
	}
	if b.opts.measures(measureAlone) {
		if err := b.withParts(ctx, 1, func() error { return b.alone(ctx, shape) }); err != nil {
			return err
		}
	}
	if b.opts.measures(measureMany) {
		return b.many(ctx, shape)
	}
	return nil
}

// withParts runs the parts of Sluice during a measurement.
func (b *bench) withParts(ctx context.Context, executors int, do func() error) error {
	if err := b.run(ctx, executors); err != nil {
		return err
	}
	return errors.Join(do(), b.halt())
}

// newSet creates Rollouts that clean removes.
func (b *bench) newSet(ctx context.Context, name string, size, namespaces int, shape shape) (*rolloutSet, error) {
	f, err := newRolloutSet(ctx, b.client, name, size, namespaces, shape)
	b.sets = append(b.sets, f)
	if err != nil {
		return nil, err
	}
	return f, b.log.awaitQuiet(ctx, quietFor)
}

// alone measures one release at a time, repeatedly.
func (b *bench) alone(ctx context.Context, shape shape) error {
	f, err := b.newSet(ctx, "alone-"+shape.style, 1, 1, shape)
	if err != nil {
		return err
	}
	// The first release finds cold caches in every process.
	if _, err := f.fly(ctx, b.client, f.rollouts); err != nil {
		return err
	}
	if err := b.log.awaitQuiet(ctx, quietFor); err != nil {
		return err
	}
	say("one release alone, %d times, %s style", b.opts.repeat, shape.style)
	r, err := b.flights(ctx, f, b.opts.repeat)
	r.Executors = min(1, b.opts.executors[0])
	b.report.Runs = append(b.report.Runs, r)
	return err
}

// many measures each number of releases with each number of executors.
func (b *bench) many(ctx context.Context, shape shape) error {
	sets := map[int]*rolloutSet{}
	for _, executors := range b.opts.executors {
		err := b.withParts(ctx, executors, func() error {
			for _, releases := range b.opts.releases {
				if sets[releases] == nil {
					f, err := b.newSet(ctx, fmt.Sprintf("%s-%d", shape.style, releases), releases, b.opts.namespaces, shape)
					if err != nil {
						return err
					}
					sets[releases] = f
				}
				if err := b.log.awaitQuiet(ctx, quietFor); err != nil {
					return err
				}
				say("%d releases at once, %s style", releases, shape.style)
				profiled := b.beginProfiles(ctx, releases, executors)
				r, err := b.flights(ctx, sets[releases], 1)
				r.Executors = executors
				b.report.Runs = append(b.report.Runs, r)
				if err := errors.Join(err, profiled()); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// flights measures parallel releases of the whole set, repeat times.
func (b *bench) flights(ctx context.Context, f *rolloutSet, repeat int) (Run, error) {
	r := Run{Style: f.shape.style, Releases: len(f.rollouts), Repeat: repeat, Namespaces: len(f.namespaces), Load: loadAverage()}
	var all times
	offset, meter, began := b.log.end(), b.meter().forgetPeaks(), time.Now()
	for range repeat {
		w, err := f.fly(ctx, b.client, f.rollouts)
		if err != nil {
			return r, err
		}
		all.add(w)
		r.Makespan = max(r.Makespan, w.ended.Sub(w.began).Seconds())
		for _, f := range w.flights {
			r.Lost, r.Refused = r.Lost+f.lost, r.Refused+f.refused
		}
	}
	took := time.Since(began).Seconds()
	r.ChangeToPause, r.ApproveToPause, r.ApproveToHealthy = latency(all.toPause), latency(all.toNext), latency(all.toHealthy)
	_, busy := meter.read()
	r.Busy = busy / took / float64(b.report.Cores)
	// The requests of the controller after the end of a release belong to the release.
	if err := b.log.awaitQuiet(ctx, quietFor); err != nil {
		return r, err
	}
	r.Processes, _ = meter.read()
	for _, p := range r.Processes {
		if p.Ours {
			r.CPUPerRelease += p.CPUSeconds / float64(len(f.rollouts)*repeat)
		}
	}
	var err error
	if r.Traffic, err = b.log.since(offset); r.Traffic != nil {
		r.Traffic.perRelease(len(f.rollouts) * repeat)
	}
	return r, err
}
