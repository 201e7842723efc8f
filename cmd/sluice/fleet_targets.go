package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/cmd/sluice/internal/fleetview"
	"sluice.dev/sluice/pkg/fleet"
)

func (c *cli) fleetTargetsCommand() *cobra.Command {
	var o fleetListOptions
	targets := &cobra.Command{
		Use: "targets FLEETROLLOUT", Short: "Show each cluster of a release: wave, phase, reason and step",
		Long: "Show one line for each cluster of a release, in the order of the waves. A cluster without a permit has no object on the hub: its\n" +
			"phase comes from the counts of the release and from its FleetMember.",
		Example: fmt.Sprintf("  %[1]s fleet targets checkout -n shop\n  %[1]s fleet targets checkout -l region=eu-west -w\n  %[1]s fleet targets checkout -o json", c.command),
		Args:    cobra.ExactArgs(1), ValidArgsFunction: c.completeFleetRollouts,
		RunE: func(cmd *cobra.Command, args []string) error { return c.showTargets(cmd.Context(), args[0], o) },
	}
	o.selectorFlag(targets, "show only clusters whose FleetMembers have these labels")
	o.watchFlag(targets)
	outputFlag(targets, &o.output, "instead of the table", "json", "yaml")
	return targets
}

func (c *cli) showTargets(ctx context.Context, arg string, o fleetListOptions) error {
	if err := o.check("json", "yaml"); err != nil {
		return err
	}
	h, r, err := c.namedFleetRollout(ctx, arg)
	if err != nil {
		return err
	}
	if o.output != "" {
		clusters, err := c.readTargets(ctx, h, h.readSettledView(ctx, r), o)
		if err != nil {
			return c.fleetProblem(ctx, h, "", err)
		}
		return c.printValues(o.output, map[string]any{"targets": nonNil(clusters)})
	}
	return c.showTable(ctx, h, fleetTable{kind: "clusters", of: sources(r)}, o, func() (*metav1.Table, error) {
		now, err := h.readFleetRollout(ctx, r.Name)
		if err != nil {
			return nil, err
		}
		read := h.readSettledView
		if o.watch {
			read = h.readFleetView // the next change is shown too
		}
		clusters, err := c.readTargets(ctx, h, read(ctx, now), o)
		if err != nil {
			return nil, err
		}
		return fleetview.TargetTable(clusters, time.Now())
	})
}

// readTargets returns the clusters of a release that have the labels of -l, and says what could not be read.
func (c *cli) readTargets(ctx context.Context, h hub, v fleetview.View, o fleetListOptions) ([]fleet.ReleaseCluster, error) {
	clusters := fleetview.ReadClusters(v)
	if o.selector != "" {
		members, err := h.readMembers(ctx, o.selector)
		if err != nil {
			return nil, err
		}
		clusters = fleetview.SelectMembers(clusters, members)
	}
	for _, text := range v.Unread {
		fmt.Fprintln(c.errors, text)
	}
	return clusters, nil
}

// nonNil makes an empty list print as [] and not as null.
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
