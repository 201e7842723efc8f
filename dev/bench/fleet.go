package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
)

// fleet measures a hub with two clusters: its own, and the cluster of the bench.
func (b *bench) fleet(ctx context.Context, shape shape) error {
	result := &Fleet{AtOnce: approvalsAtOnce, Repeat: b.opts.repeat, Load: loadAverage()}
	hub, err := b.openHub(ctx)
	if err == nil {
		err = b.withParts(ctx, 1, func() error { return b.measureFleet(ctx, hub, shape, result) })
	}
	b.executorFlags = nil
	if result.Ungoverned != nil {
		b.report.Fleet = result
	}
	return errors.Join(err, hub.close())
}

func (b *bench) measureFleet(ctx context.Context, hub *hubSite, shape shape, result *Fleet) error {
	if err := hub.awaitMembers(ctx); err != nil {
		return err
	}
	var err error
	if result.Ungoverned, err = b.fleetTraffic(ctx, nil, "without-fleet", shape); err != nil {
		return err
	}
	shape.governed = true
	if result.Governed, err = b.fleetTraffic(ctx, hub, "governed", shape); err != nil {
		return err
	}
	shape.grace = 0 // it is no part of what is measured
	result.FirstAction, err = b.approvals(ctx, hub, shape)
	return err
}

// fleetTraffic counts the requests of the same releases, with a hub or without. Users of the cluster approve each step.
func (b *bench) fleetTraffic(ctx context.Context, hub *hubSite, name string, shape shape) (*Traffic, error) {
	set, err := b.newSet(ctx, name, 1, 1, shape)
	if err != nil {
		return nil, err
	}
	if hub != nil {
		const plan = `{"waves":[{"name":"all","clusters":{"matchLabels":{"wave":"second"}}}],"localPauses":"Keep"}`
		if err := hub.govern(ctx, set, plan); err != nil {
			return nil, err
		}
	}
	if _, err := set.fly(ctx, b.client, set.rollouts); err != nil { // it finds cold caches
		return nil, err
	}
	if err := b.log.awaitQuiet(ctx, quietFor); err != nil {
		return nil, err
	}
	say("one release alone, %d times, %s", b.opts.repeat, name)
	r, err := b.flights(ctx, set, b.opts.repeat)
	return r.Traffic, err
}

// govern creates the FleetRollouts of a set with their namespaces, and lets the set announce its versions to them.
func (h *hubSite) govern(ctx context.Context, set *rolloutSet, plan string) error {
	for _, namespace := range set.namespaces {
		if err := createNamespace(ctx, h.client, namespace); err != nil {
			return err
		}
	}
	return h.governExisting(ctx, set, plan)
}

// governExisting is govern for a hub that has the namespaces already.
func (h *hubSite) governExisting(ctx context.Context, set *rolloutSet, plan string) error {
	for _, name := range set.rollouts {
		body := object{"apiVersion": api.FleetGroupVersion().String(), "kind": api.KindFleetRollout,
			"metadata": object{"name": name.name, "labels": labelsOf(set.name)}, "spec": rawJSON(plan)}
		if err := h.client.create(ctx, collection(templatesPath, name.namespace, "fleetrollouts"), body); err != nil {
			return err
		}
	}
	h.releases.follow(ctx, h.client, collection(templatesPath, "", "fleetrollouts"), set.name)
	set.announce = h.announce
	return nil
}

// announce names the next version at the hub, once the release before has ended.
func (h *hubSite) announce(ctx context.Context, name rolloutName, version string) error {
	if _, err := h.releases.await(ctx, name, "the release before has ended", func(v view) bool {
		return v.Status.Phase == api.Phase(api.FleetPhaseSucceeded) || v.Status.Release == nil
	}); err != nil {
		return err
	}
	_, err := h.client.patch(ctx, types.MergePatchType, fleetRolloutPath(name), fmt.Sprintf(`{"spec":{"release":{"version":%q}}}`, version))
	return err
}

func fleetRolloutPath(name rolloutName) string {
	return filepath.Join(collection(templatesPath, name.namespace, "fleetrollouts"), name.name)
}
