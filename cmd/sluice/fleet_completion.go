package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"sluice.dev/sluice/cmd/sluice/internal/fleetview"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
)

// offerOfHub completes the values that find returns in time. It reports no errors to the shell.
func (c *cli) offerOfHub(cmd *cobra.Command, find func(context.Context, hub) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	h, err := c.newHub()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionDeadline())
	defer cancel()
	found, err := find(ctx, h)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeFleetRollouts completes the names of the FleetRollouts in the namespace.
func (c *cli) completeFleetRollouts(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.offerOfHub(cmd, func(ctx context.Context, h hub) ([]string, error) {
		rollouts, err := readList[api.FleetRollout](ctx, h, api.FleetRolloutResource(), h.namespace, "")
		var names []string
		for _, r := range rollouts {
			names = append(names, cobra.CompletionWithDesc(r.Name, string(r.Status.Phase)))
		}
		return names, err
	})
}

// offerOfFleet completes values that find reads from the FleetRollout that is named.
func (c *cli) offerOfFleet(cmd *cobra.Command, args []string, find func(context.Context, hub, *api.FleetRollout) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	name, err := fleetName(args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.offerOfHub(cmd, func(ctx context.Context, h hub) ([]string, error) {
		r, err := h.readFleetRollout(ctx, name)
		if err != nil {
			return nil, err
		}
		return find(ctx, h, r)
	})
}

// completeFleetClusters completes FleetRollouts, and then the clusters of the given one.
func (c *cli) completeFleetClusters(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return c.completeFleetRollouts(cmd, args, typed)
	}
	return c.offerOfFleet(cmd, args, func(ctx context.Context, h hub, r *api.FleetRollout) ([]string, error) {
		var names []string
		for _, cluster := range fleetview.ReadClusters(h.readFleetView(ctx, r)) {
			if !slices.Contains(args[1:], cluster.Name) {
				names = append(names, cobra.CompletionWithDesc(cluster.Name, string(cluster.Phase)))
			}
		}
		return names, nil
	})
}

// completeBlocked completes FleetRollouts, and then the blocked versions of the given one.
func (c *cli) completeBlocked(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return c.completeFleetRollouts(cmd, args, typed)
	case 1:
		return c.offerOfFleet(cmd, args, func(_ context.Context, _ hub, r *api.FleetRollout) ([]string, error) {
			var keys []string
			for _, b := range r.Status.Blocked {
				if !b.Unblocked {
					keys = append(keys, fleet.KeyText(b.Version))
				}
			}
			return keys, nil
		})
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeWaves completes the waves of the given FleetRollout, with their descriptions.
func (c *cli) completeWaves(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.offerOfFleet(cmd, args, func(ctx context.Context, h hub, r *api.FleetRollout) ([]string, error) {
		strategy := r.Status.Plan
		if strategy == nil {
			var err error
			if strategy, err = h.readStrategy(ctx, r); err != nil {
				return nil, err
			}
		}
		var waves []string
		for _, w := range strategy.Waves {
			waves = append(waves, cobra.CompletionWithDesc(w.Name, fleetview.WaveText(w)))
		}
		return waves, nil
	})
}

// completePlans completes the names of the FleetPlans.
func (c *cli) completePlans(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.offerOfHub(cmd, func(ctx context.Context, h hub) ([]string, error) {
		plans, err := readList[api.FleetPlan](ctx, h, api.FleetPlanResource(), "", "")
		var names []string
		for _, p := range plans {
			names = append(names, p.Name)
		}
		return names, err
	})
}
