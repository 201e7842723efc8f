package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
)

// rolloutSet is a number of idle Rollouts with all their objects.
type rolloutSet struct {
	name       string
	shape      shape
	namespaces []string
	rollouts   []rolloutName
	versions   int
	// announce, unless nil, tells the hub of a fleet which version comes.
	announce func(ctx context.Context, name rolloutName, version string) error
}

type rolloutName struct{ namespace, name string }

func (m rolloutName) key() string { return m.namespace + "/" + m.name }

// parallel is the number of parallel requests of the bench while it creates objects.
const parallel = 32

// newRolloutSet creates the objects and returns when every Rollout is healthy and every Deployment available.
func newRolloutSet(ctx context.Context, c *client, name string, size, namespaces int, shape shape) (*rolloutSet, error) {
	f := layOut(name, size, namespaces, shape)
	if err := f.create(ctx, c); err != nil {
		return f, err
	}
	return f, errors.Join(f.await(ctx, c, rolloutsPath, "rollouts", "healthy", func(v view) bool { return v.Status.Phase == api.PhaseHealthy }), f.awaitPods(ctx, c))
}

// layOut names the objects without creating them.
func layOut(name string, size, namespaces int, shape shape) *rolloutSet {
	f := &rolloutSet{name: name, shape: shape}
	for i := range min(size, namespaces) {
		f.namespaces = append(f.namespaces, fmt.Sprintf("bench-%s-%d", name, i))
	}
	for i := range size {
		f.rollouts = append(f.rollouts, rolloutName{f.namespaces[i%len(f.namespaces)], fmt.Sprintf("app-%d", i)})
	}
	return f
}

func (f *rolloutSet) create(ctx context.Context, c *client) error {
	size := len(f.rollouts)
	say("creating %d Rollouts in %d namespaces, each with Deployment, Service and VirtualService", size, len(f.namespaces))
	for _, namespace := range f.namespaces {
		if err := createNamespace(ctx, c, namespace); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var made atomic.Int64
	go every(ctx, sayEvery, func() { say("created %d of %d", made.Load(), size) })
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, m := range f.rollouts {
		group.Go(func() error {
			for _, o := range f.shape.manifests(f.name, m.namespace, m.name) {
				if err := c.create(creating, o.path, o.body); err != nil {
					return err
				}
			}
			made.Add(1)
			return nil
		})
	}
	return group.Wait()
}

// sayEvery is the interval of progress messages.
const sayEvery = 10 * time.Second

// every calls do at each interval until ctx ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			do()
		case <-ctx.Done():
			return
		}
	}
}

// awaitPods returns when every Deployment is available.
func (f *rolloutSet) awaitPods(ctx context.Context, c *client) error {
	return f.await(ctx, c, deploymentsPath, "deployments", "available", func(v view) bool { return int(v.Status.AvailableReplicas) >= f.shape.replicas })
}

func createNamespace(ctx context.Context, c *client, name string) error {
	return c.create(ctx, "/api/v1/namespaces", object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": name}})
}

// await returns when every object of a kind has the wanted state.
func (f *rolloutSet) await(ctx context.Context, c *client, group, resource, wanted string, there func(view) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left := map[string]string{}
	for _, m := range f.rollouts {
		left[m.key()] = "it was not seen"
	}
	next := time.Now().Add(sayEvery)
	err := c.watch(ctx, collection(group, "", resource), label+"="+f.name, func(e change) {
		if _, waited := left[e.Object.key()]; !waited {
			return
		}
		left[e.Object.key()] = fmt.Sprintf("it is %s: %s", e.Object.Status.Phase, e.Object.Status.Message)
		if there(e.Object) {
			delete(left, e.Object.key())
		}
		if len(left) == 0 {
			cancel()
		} else if now := time.Now(); now.After(next) {
			next = now.Add(sayEvery)
			say("%d of %d %s are %s", len(f.rollouts)-len(left), len(f.rollouts), resource, wanted)
		}
	})
	for key, why := range left {
		return errors.Join(err, fmt.Errorf("wait until %s %s is %s: %w; %s", resource, key, wanted, context.Cause(ctx), why))
	}
	return err
}

// remove deletes the set and returns when its namespaces are gone.
func (f *rolloutSet) remove(ctx context.Context, c *client) error {
	var errs []error
	for _, m := range f.rollouts {
		path := collection(rolloutsPath, m.namespace, "rollouts") + "/" + m.name
		if _, err := c.raw.Delete().AbsPath(path).DoRaw(ctx); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("delete %s: %w", path, err))
		}
	}
	for _, namespace := range f.namespaces {
		if err := c.typed.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("delete a namespace: %w", err))
		}
	}
	for _, namespace := range f.namespaces {
		errs = append(errs, until(ctx, "namespace "+namespace+" is gone", func(ctx context.Context) (bool, error) {
			_, err := c.typed.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		}))
	}
	return errors.Join(errs...)
}
