package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sluice.dev/sluice/cmd/sluice/internal/fleetview"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
)

func (c *cli) fleetRetryCommand() *cobra.Command {
	return c.verbCommand(fleetVerb{
		use: "retry FLEETROLLOUT CLUSTER...", short: "Let clusters try a release again that failed there",
		long: "Give clusters in which the release has failed, or whose steps were changed, another permit. They count as failed no longer. A cluster that a\n" +
			"user has skipped takes part in the release again.",
		examples: []string{"retry checkout eu1 -n shop", "retry checkout eu1 eu2 -n shop --reason \"the node is repaired\""},
		args:     cobra.MinimumNArgs(2), complete: c.completeFleetClusters,
		order: func(ctx context.Context, args []string) (fleetOrder, error) {
			return c.clusterOrder(ctx, api.FleetCommandRetry, "the clusters get another permit", args, c.checkRetry)
		},
	})
}

// checkRetry returns an error for a cluster that cannot try again.
func (c *cli) checkRetry(r *api.FleetRollout, found fleet.ReleaseCluster) error {
	why, helps := fleet.RetryRefusal(found.Phase, found.Reason)
	if why == "" {
		return nil
	}
	err := fmt.Errorf("cluster %s is %s: %s", found.Name, found.Phase, why)
	if helps != "" {
		err = fmt.Errorf("%w, type: %s", err, c.typedStyle().FleetCommand(helps, r, found.Name))
	}
	return err
}

func (c *cli) fleetSkipCommand() *cobra.Command {
	return c.verbCommand(fleetVerb{
		use: "skip FLEETROLLOUT [CLUSTER...]", short: "Pass over clusters, or over a wave in which nothing is proven",
		long: "Pass over clusters: they get no permit in this release, go back if they are under way, and count in no budget. Without clusters, pass over\n" +
			"the wave that stands still because too few of its clusters have completed.",
		examples: []string{"skip checkout eu1 -n shop --reason \"the cluster is being replaced\"", "skip checkout -n shop"},
		args:     cobra.MinimumNArgs(1), complete: c.completeFleetClusters,
		order: func(ctx context.Context, args []string) (fleetOrder, error) {
			if len(args) > 1 {
				return c.clusterOrder(ctx, api.FleetCommandSkip, "the release passes over the clusters", args, func(*api.FleetRollout, fleet.ReleaseCluster) error { return nil })
			}
			return givesAlways(api.FleetCommandSkip, "the release passes over the wave", func(r *api.FleetRollout) (string, error) {
				if s := r.Status; s.Phase != api.FleetPhaseStalled || s.Reason != "NothingProven" {
					return "", fmt.Errorf("no wave of %s stands still because nothing is proven, so name the clusters to pass over: %s", fullName(r), s.Message)
				}
				return "", nil
			})(ctx, args)
		},
	})
}

// clusterOrder returns an order about clusters of the release. It knows them by the objects of the hub.
func (c *cli) clusterOrder(ctx context.Context, action api.FleetCommandAction, foretells string, args []string, check func(*api.FleetRollout, fleet.ReleaseCluster) error) (fleetOrder, error) {
	names := slices.Compact(slices.Sorted(slices.Values(args[1:])))
	h, r, err := c.namedFleetRollout(ctx, args[0])
	if err != nil {
		return fleetOrder{}, err
	}
	if r.Status.Release != nil {
		known := fleetview.ReadClusters(h.readSettledView(ctx, r))
		for _, name := range names {
			i := slices.IndexFunc(known, func(cluster fleet.ReleaseCluster) bool { return cluster.Name == name })
			if i < 0 {
				return fleetOrder{}, fmt.Errorf("%q is no cluster of the release of %s; list them with: %s", name, fullName(r), c.typedStyle().FleetCommand("targets", r))
			}
			if err := check(r, known[i]); err != nil {
				return fleetOrder{}, err
			}
		}
	}
	return fleetOrder{action: action, foretells: foretells + " " + strings.Join(names, ", "), complete: func(r *api.FleetRollout, command *api.FleetCommand) (string, error) {
		command.Clusters = names
		listed := r.Status.Skipped
		if action == api.FleetCommandRetry {
			listed = r.Status.Retries
			if err := cmp.Or(c.notGoingBack(r, "retry"), c.notAborted(r, "retry")); err != nil {
				return "", err
			}
		}
		if slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(listed, name) }) {
			return "", nil
		}
		if action == api.FleetCommandRetry {
			return fmt.Sprintf("the clusters %s of %s are told to try again already", strings.Join(names, ", "), fullName(r)), nil
		}
		return fmt.Sprintf("the release of %s passes over %s already", fullName(r), strings.Join(names, ", ")), nil
	}}, nil
}
