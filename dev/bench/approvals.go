package main

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
)

// approvalsAtOnce is the number of FleetRollouts whose waves are approved at the same time.
const approvalsAtOnce = 5

// twoWaves has a wave with the cluster of the hub, an approval, and a wave with the cluster of the bench. Permits are the approvals of the steps.
const twoWaves = `{"waves":[{"name":"first","clusters":{"matchLabels":{"wave":"first"}},"pause":{}},{"name":"second"}]}`

// approvals measures the time from an approval at the hub to the first action in the next wave's cluster.
func (b *bench) approvals(ctx context.Context, hub *hubSite, shape shape) (Latency, error) {
	set, err := b.newSet(ctx, "approvals", approvalsAtOnce, 1, shape)
	if err != nil {
		return Latency{}, err
	}
	first, err := newRolloutSet(ctx, hub.client, "approvals", approvalsAtOnce, 1, shape)
	if err != nil {
		return Latency{}, err
	}
	if err := hub.governExisting(ctx, set, twoWaves); err != nil {
		return Latency{}, err
	}
	second := newFollower()
	second.follow(ctx, b.client, collection(rolloutsPath, "", "rollouts"), set.name)
	var all []time.Duration
	var mu sync.Mutex
	say("%d approvals at once, %d times", approvalsAtOnce, b.opts.repeat)
	for round := range b.opts.repeat {
		group, ctx := errgroup.WithContext(ctx)
		for _, name := range set.rollouts {
			group.Go(func() error {
				a := approval{hub: hub, second: second, name: name, version: strconv.Itoa(round + 1)}
				took, err := a.measure(ctx, b.client, first.shape)
				mu.Lock()
				defer mu.Unlock()
				all = append(all, took)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return Latency{}, errors.Join(err, second.close())
		}
	}
	return latency(all), second.close()
}

// approval is one release over both waves.
type approval struct {
	hub     *hubSite
	second  *follower
	name    rolloutName
	version string
}

// measure releases a version, and returns the time from the approval to the first change of the Rollout in the second cluster.
func (a approval) measure(ctx context.Context, bench *client, shape shape) (time.Duration, error) {
	if err := a.hub.announce(ctx, a.name, a.version); err != nil {
		return 0, err
	}
	for _, c := range []*client{a.hub.client, bench} {
		path := collection(deploymentsPath, a.name.namespace, "deployments") + "/" + a.name.name
		if _, err := c.patch(ctx, types.StrategicMergePatchType, path, shape.newVersion(a.version)); err != nil {
			return 0, err
		}
	}
	held, err := a.second.await(ctx, a.name, "the version is held", func(v view) bool {
		return v.Status.Fleet != nil && v.Status.Fleet.Releasing.Version == a.version
	})
	if err != nil {
		return 0, err
	}
	waits, err := a.hub.releases.await(ctx, a.name, "it waits for an approval", func(v view) bool { return a.isReleased(v) && v.Status.Reason == "Approval" })
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if _, err := a.hub.client.patch(ctx, types.MergePatchType, fleetRolloutPath(a.name)+"/status", approveWave(waits)); err != nil {
		return 0, err
	}
	before := held.Metadata.Annotations[api.AnnotationPermitUsed]
	if _, err := a.second.await(ctx, a.name, "it acts", func(v view) bool { return v.Metadata.Annotations[api.AnnotationPermitUsed] != before }); err != nil {
		return 0, err
	}
	took := time.Since(began)
	_, err = a.hub.releases.await(ctx, a.name, "it has succeeded", func(v view) bool { return a.isReleased(v) && v.Status.Phase == api.Phase(api.FleetPhaseSucceeded) })
	return took, err
}

func (a approval) isReleased(v view) bool {
	return v.Status.Release != nil && v.Status.Release.Version == a.version
}
