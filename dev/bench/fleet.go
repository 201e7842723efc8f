package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
)

// fleet is a number of Rollouts with all that belongs to them, at rest.
type fleet struct {
	name       string
	shape      shape
	namespaces []string
	members    []member
	versions   int
}

type member struct{ namespace, name string }

func (m member) key() string { return m.namespace + "/" + m.name }

// parallel is how many requests the bench has under way while it creates objects.
const parallel = 32

// newFleet creates the objects and returns when every Rollout is healthy and every Deployment available.
func newFleet(ctx context.Context, c *client, name string, size, namespaces int, shape shape) (*fleet, error) {
	say("creating %d Rollouts in %d namespaces, each with Deployment, Service and VirtualService", size, min(size, namespaces))
	f := &fleet{name: name, shape: shape}
	for i := range min(size, namespaces) {
		f.namespaces = append(f.namespaces, fmt.Sprintf("bench-%s-%d", name, i))
	}
	for i := range size {
		f.members = append(f.members, member{f.namespaces[i%len(f.namespaces)], fmt.Sprintf("app-%d", i)})
	}
	for _, namespace := range f.namespaces {
		if err := createNamespace(ctx, c, namespace); err != nil {
			return f, err
		}
	}
	var made atomic.Int64
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, m := range f.members {
		group.Go(func() error {
			for _, o := range shape.manifests(name, m.namespace, m.name) {
				if err := c.create(creating, o.path, o.body); err != nil {
					return err
				}
			}
			if n := made.Add(1); n%1000 == 0 {
				say("created %d of %d", n, size)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return f, err
	}
	return f, errors.Join(f.await(ctx, c, rolloutsPath, "rollouts", "healthy", func(v view) bool { return v.Status.Phase == api.PhaseHealthy }),
		f.await(ctx, c, deploymentsPath, "deployments", "available", func(v view) bool { return int(v.Status.AvailableReplicas) >= shape.replicas }))
}

func createNamespace(ctx context.Context, c *client, name string) error {
	_, err := c.typed.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create a namespace: %w", err)
	}
	return nil
}

// await returns when every object of a kind is as wanted.
func (f *fleet) await(ctx context.Context, c *client, group, resource, wanted string, there func(view) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left := map[string]string{}
	for _, m := range f.members {
		left[m.key()] = "it was not seen"
	}
	next := time.Now().Add(10 * time.Second)
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
			next = now.Add(10 * time.Second)
			say("%d of %d %s are %s", len(f.members)-len(left), len(f.members), resource, wanted)
		}
	})
	for key, why := range left {
		return errors.Join(err, fmt.Errorf("wait until %s %s is %s: %w; %s", resource, key, wanted, context.Cause(ctx), why))
	}
	return err
}

// remove deletes the fleet and returns when its namespaces are gone.
func (f *fleet) remove(ctx context.Context, c *client) error {
	var errs []error
	for _, m := range f.members {
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
