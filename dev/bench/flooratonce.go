package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// floorAtOnce measures, for each number of releases, the speed of this machine without decisions. No part of Sluice runs, and the driver makes the minimal
// writes of each release.
func (b *bench) floorAtOnce(ctx context.Context, shape shape) error {
	if b.cluster == nil || shape.style == styleBlueGreen {
		return nil // the controller of an external cluster would interfere; and blue-green style has no list of its writes
	}
	config, err := clientcmd.BuildConfigFromFlags("", b.kubeconfigs["executor"])
	if err != nil {
		return fmt.Errorf("read the kubeconfig of the executor: %w", err)
	}
	writer, err := newClient(config, writerAgent)
	if err != nil {
		return err
	}
	shape.adopted = true
	for _, releases := range b.opts.releases {
		f := layOut(fmt.Sprintf("floor-%s-%d", shape.style, releases), releases, b.opts.namespaces, shape)
		if err := b.leastFlights(ctx, f, writer); err != nil {
			return err
		}
		// An executor would treat them as its own.
		say("removing them")
		if err := f.remove(ctx, b.client); err != nil {
			return err
		}
	}
	return nil
}

// leastFlights creates a set, and measures the minimal releases of all its Rollouts in parallel.
func (b *bench) leastFlights(ctx context.Context, f *rolloutSet, writer *client) error {
	if err := f.create(ctx, b.client); err != nil {
		return err
	}
	if err := f.awaitPods(ctx, b.client); err != nil {
		return err
	}
	watching, end := context.WithCancel(ctx)
	seen, wait, err := watchNatives(watching, writer.typed, f)
	defer func() { end(); wait() }()
	if err != nil {
		return err
	}
	all, err := f.leasts(ctx, b.client, writer, seen)
	if err != nil {
		return err
	}
	// The first release finds cold caches.
	if _, err := flyLeast(ctx, all[:1], "1"); err != nil {
		return err
	}
	if err := b.log.awaitQuiet(ctx, quietFor); err != nil {
		return err
	}
	say("%d releases of %s style at once, without decisions", len(all), f.shape.style)
	r := FloorRun{Style: f.shape.style, Releases: len(all), Namespaces: len(f.namespaces), Load: loadAverage()}
	offset, meter, began := b.log.end(), b.meter().forgetPeaks(), time.Now()
	took, err := flyLeast(ctx, all, "2")
	if err != nil {
		return err
	}
	_, busy := meter.read()
	r.Makespan = time.Since(began).Seconds()
	r.Release, r.Busy = latency(took), busy/r.Makespan/float64(b.report.Cores)
	if err := b.log.awaitQuiet(ctx, quietFor); err != nil {
		return err
	}
	r.Processes, _ = meter.read()
	if r.Traffic, err = b.log.since(offset); r.Traffic != nil {
		r.Traffic.perRelease(len(all))
	}
	b.report.FloorAtOnce = append(b.report.FloorAtOnce, r)
	return err
}

// leasts returns the releases of all Rollouts, ready to start.
func (f *rolloutSet) leasts(ctx context.Context, owner, writer *client, seen *natives) ([]*least, error) {
	rollouts, err := owner.list(ctx, collection(rolloutsPath, "", "rollouts"), label+"="+f.name)
	if err != nil {
		return nil, err
	}
	routes, err := owner.list(ctx, collection(virtualServicesPath, "", "virtualservices"), label+"="+f.name)
	if err != nil {
		return nil, err
	}
	all := make([]*least, 0, len(f.rollouts))
	for _, m := range f.rollouts {
		l := &least{rolloutName: m, set: f.name, shape: f.shape, owner: owner, writer: writer, seen: seen, rollout: rollouts[m.key()], route: routes[m.key()].Metadata.ResourceVersion}
		if l.stable, err = owner.typed.AppsV1().Deployments(m.namespace).Get(ctx, m.name, metav1.GetOptions{}); err != nil {
			return nil, fmt.Errorf("read a Deployment: %w", err)
		}
		if l.stableService, err = owner.typed.CoreV1().Services(m.namespace).Get(ctx, m.name, metav1.GetOptions{}); err != nil {
			return nil, fmt.Errorf("read a Service: %w", err)
		}
		all = append(all, l)
	}
	return all, nil
}

// flyLeast releases a version of all Rollouts in parallel, and returns the duration of each release.
func flyLeast(ctx context.Context, all []*least, version string) ([]time.Duration, error) {
	took := make([]time.Duration, len(all))
	group, flying := errgroup.WithContext(ctx)
	for i, l := range all {
		if err := l.begin(version); err != nil {
			return nil, err
		}
		group.Go(func() error {
			began := time.Now()
			err := l.fly(flying)
			took[i] = time.Since(began)
			return err
		})
	}
	return took, group.Wait()
}
