package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// floor measures the lower bound of a release: a plain Deployment of one pod, from its creation until it is available.
func (b *bench) floor(ctx context.Context) error {
	const namespace, name = "bench-floor", "floor"
	say("the native floor, %d times", b.opts.repeat)
	f := &rolloutSet{name: name, namespaces: []string{namespace}}
	b.sets = append(b.sets, f)
	if err := createNamespace(ctx, b.client, namespace); err != nil {
		return err
	}
	result := &Floor{Load: loadAverage()}
	var all []time.Duration
	var offset int64
	for i := range b.opts.repeat + 1 {
		if i == 1 {
			offset = b.log.end() // the first finds cold caches and does not count
		}
		took, err := b.plain(ctx, namespace, fmt.Sprintf("%s-%d", name, i))
		if err != nil {
			return err
		}
		if i > 0 {
			all = append(all, took)
		}
	}
	if err := b.log.awaitQuiet(ctx, quietFor); err != nil {
		return err
	}
	result.CreateToAvailable = latency(all)
	traffic, err := b.log.since(offset)
	if err != nil {
		return err
	}
	if traffic != nil {
		result.Requests = float64(traffic.Native) / float64(b.opts.repeat)
	}
	b.report.Floor = result
	return b.client.typed.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
}

// plain creates a Deployment and returns the time until it was available.
func (b *bench) plain(ctx context.Context, namespace, name string) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stuckAfter, fmt.Errorf("Deployment %s was not available after %s", name, stuckAfter))
	defer cancel()
	path := collection(deploymentsPath, namespace, "deployments")
	available := make(chan time.Time, 1)
	watched := make(chan error, 1)
	watching, end := context.WithCancel(ctx)
	go func() {
		watched <- b.client.watch(watching, path, label+"="+name, func(e change) {
			if e.Object.Status.AvailableReplicas > 0 {
				select {
				case available <- time.Now():
				default:
				}
			}
		})
	}()
	defer func() { end(); <-watched }()
	began := time.Now()
	if err := b.client.create(ctx, path, deployment(object{"name": name, "labels": object{label: name}}, name, 1)); err != nil {
		return 0, err
	}
	select {
	case at := <-available:
		return at.Sub(began), nil
	case err := <-watched:
		watched <- nil
		return 0, fmt.Errorf("follow a plain Deployment: %w", err)
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}
