package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/trafficrouting"
)

// This file is about the TrafficRouting that a Rollout names. Few Rollouts name one, so the client reads it each time.

const trafficRoutings = "trafficroutings"

func (c *Client) getTrafficRouting(ctx context.Context, key types.NamespacedName) (*api.TrafficRouting, error) {
	return apiclient.WithDeadline(ctx, func(ctx context.Context) (*api.TrafficRouting, error) {
		t := &api.TrafficRouting{}
		return t, c.trafficRoutings.Get().Namespace(key.Namespace).Resource(trafficRoutings).Name(key.Name).Do(ctx).Into(t)
	})
}

func (o *observation) readTrafficRouting(ctx context.Context) {
	name := o.snapshot.spec.TrafficRouting
	if name == "" {
		return
	}
	o.startRead(ctx, o.accessTo("get", api.Group, trafficRoutings, name), func(ctx context.Context) (err error) {
		if o.source == fromMemory {
			return errNotCached
		}
		o.client.readCounts.live.Add(1)
		o.snapshot.trafficRouting, err = nilIfNotFound(o.client.getTrafficRouting(ctx, o.keyOf(name)))
		if api.Unserved(err) {
			o.addProblem(rollout.Problem{Reason: rollout.ReasonTrafficRoutingMissing, Message: fmt.Sprintf(
				"This cluster does not serve TrafficRouting %s: install the CustomResourceDefinitions again: sluice install --print --part crds | kubectl apply --server-side -f -", name)})
			return nil
		}
		return err
	})
}

func (s *Snapshot) observeTrafficRouting() *rollout.TrafficRouting {
	t := s.trafficRouting
	if t == nil {
		return nil
	}
	seen := &rollout.TrafficRouting{
		Deleting: t.DeletionTimestamp != nil, Claimed: slices.Contains(t.Finalizers, progressingFinalizer(s.rollout.Name)),
		Finalizing: t.Status.Phase == api.RoutingFinalizing, Applied: trafficrouting.IsApplied(t), Inactive: trafficrouting.InactiveFor(t, s.rollout.Name), Message: t.Status.Message,
	}
	if spec, err := trafficrouting.Parse(t); err == nil {
		seen.Grace = spec.Grace
	}
	return seen
}

// progressingFinalizer returns the finalizer that a Rollout uses to ask for a TrafficRouting.
func progressingFinalizer(name string) string { return api.FinalizerProgressingPrefix + name }

// claimTrafficRouting makes the Rollout ask for its TrafficRouting, or stop asking.
func (c *Client) claimTrafficRouting(ctx context.Context, s *Snapshot, a rollout.Action, claim bool) error {
	if s.trafficRouting == nil {
		return apiclient.StaleAction(a)
	}
	own := progressingFinalizer(s.rollout.Name)
	var on []string
	if claim {
		on = append(on, own)
	}
	updated, err := c.changeFinalizers(ctx, s.trafficRouting, func(f string) bool { return f == own }, on...)
	if apiclient.IsNotFound(err) && !claim {
		s.trafficRouting = nil
		return nil
	}
	if err != nil {
		return apiclient.ActionError(a, s.accessTo("patch", api.Group, trafficRoutings, s.trafficRouting.Name), err)
	}
	s.trafficRouting = updated
	return nil
}

// changeFinalizers removes finalizers from a TrafficRouting and then adds some, if it has not changed since it was
// read.
func (c *Client) changeFinalizers(ctx context.Context, t *api.TrafficRouting, off func(string) bool, on ...string) (*api.TrafficRouting, error) {
	finalizers := slices.Concat(slices.DeleteFunc(slices.Clone(t.Finalizers), off), on)
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": t.UID, "resourceVersion": t.ResourceVersion, "finalizers": finalizers,
	}})
	if err != nil {
		return nil, err
	}
	return apiclient.WithDeadline(ctx, func(ctx context.Context) (*api.TrafficRouting, error) {
		updated := &api.TrafficRouting{}
		return updated, c.trafficRoutings.Patch(types.MergePatchType).Namespace(t.Namespace).Resource(trafficRoutings).Name(t.Name).
			Param("fieldManager", api.FieldManager).Body(body).Do(ctx).Into(updated)
	})
}
