package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"sluice.dev/sluice/cmd/sluice/internal/fleetview"
	"sluice.dev/sluice/cmd/sluice/internal/table"
	"sluice.dev/sluice/pkg/api"
)

// fleetListOptions are the flags of commands that show lists of a fleet.
type fleetListOptions struct {
	output, selector string
	spaces, watch    bool
}

func (o *fleetListOptions) selectorFlag(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", usage)
	_ = cmd.RegisterFlagCompletionFunc("selector", cobra.NoFileCompletions)
}

func (o *fleetListOptions) watchFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "go on showing what changes until interrupted")
}

func (o *fleetListOptions) spacesFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&o.spaces, "all-namespaces", "A", false, "show the FleetRollouts of all namespaces")
}

// check returns an error for values of flags that the command does not have.
func (o *fleetListOptions) check(forms ...string) error {
	if _, err := labels.Parse(o.selector); err != nil {
		return fmt.Errorf("--selector %q: %w", o.selector, err)
	}
	if o.watch && o.output != "" && o.output != "wide" {
		return fmt.Errorf("--watch shows no %s; leave out -o %[1]s, or use kubectl get with -w", o.output)
	}
	return checkOutput(o.output, forms...)
}

func (c *cli) fleetListCommand() *cobra.Command {
	var o fleetListOptions
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "Show the FleetRollouts as a table",
		Long: "Show the FleetRollouts of the namespace, each with its version, its wave and the number of clusters that have completed. The message says\n" +
			"what the release does or waits for.",
		Example: fmt.Sprintf("  %[1]s fleet list -n shop\n  %[1]s fleet list -A -l team=pay -o wide\n  %[1]s fleet list -w\n  %[1]s fleet list -o json", c.command),
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.listFleets(cmd.Context(), o) },
	}
	o.spacesFlag(list)
	o.selectorFlag(list, "show only FleetRollouts with these labels")
	o.watchFlag(list)
	outputFlag(list, &o.output, "instead of the table", "wide", "json", "yaml", "name")
	return list
}

func (c *cli) listFleets(ctx context.Context, o fleetListOptions) error {
	if err := o.check("wide", "json", "yaml", "name"); err != nil {
		return err
	}
	h, err := c.newHub()
	if err != nil {
		return err
	}
	if o.spaces {
		h.namespace = ""
	}
	of := source{api.FleetRolloutResource(), h.namespace, metav1.ListOptions{LabelSelector: o.selector}}
	if o.output != "" && o.output != "wide" {
		return c.printSource(ctx, h, of, o)
	}
	return c.showTable(ctx, h, fleetTable{kind: "FleetRollouts", namespace: h.namespace, of: []source{of}}, o, func() (*metav1.Table, error) {
		rollouts, err := readList[api.FleetRollout](ctx, h, of.resource, of.namespace, o.selector)
		if err != nil {
			return nil, err
		}
		return fleetview.RolloutTable(rollouts, time.Now())
	})
}

// printSource prints objects in another form than a table.
func (c *cli) printSource(ctx context.Context, h hub, of source, o fleetListOptions) error {
	objects, err := h.readObjects(ctx, of.resource, of.namespace, of.options.LabelSelector)
	if err != nil {
		return c.fleetProblem(ctx, h, "", err)
	}
	return c.printFleetObjects(o.output, listOf(objects), objects...)
}

// fleetTable is a table about the objects of a fleet. namespace is the one that it is about, "" for all.
type fleetTable struct {
	kind, namespace string
	of              []source
}

// showTable prints a table, or says that it has no row. With --watch it goes on printing the rows that change.
func (c *cli) showTable(ctx context.Context, h hub, t fleetTable, o fleetListOptions, read func() (*metav1.Table, error)) error {
	printer := table.Printer{Out: c.out, Wide: o.output == "wide", Namespaces: o.spaces}
	show := func() error {
		rows, err := read()
		if err != nil {
			return err
		}
		return printer.PrintRows(rows)
	}
	if o.watch {
		return c.fleetProblem(ctx, h, "", h.followChanges(ctx, t.of, show))
	}
	if err := show(); err != nil || !printer.Empty() {
		return c.fleetProblem(ctx, h, "", err)
	}
	text := "No " + t.kind + " found"
	if t.namespace != "" {
		text += " in namespace " + t.namespace + "; -A looks in all"
	}
	text += "."
	if h.memberless(ctx) {
		text += " " + c.chooseHub()
	}
	fmt.Fprintln(c.errors, text)
	return nil
}

func (c *cli) fleetMembersCommand() *cobra.Command {
	var o fleetListOptions
	members := &cobra.Command{
		Use: "members", Short: "Show the clusters of the fleet: whether the hub hears them, and what holds changes there",
		Long: "Show the FleetMembers: whether the hub hears each cluster, what holds changes there, and the version of Sluice. SKEW is how far its clock\n" +
			"is ahead. A cluster that is cordoned begins nothing new. A cluster with the enforcement None gets no permit.",
		Example: fmt.Sprintf("  %[1]s fleet members\n  %[1]s fleet members -l env=prod -o wide\n  %[1]s fleet members -o json", c.command),
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.listMembers(cmd.Context(), o) },
	}
	o.selectorFlag(members, "show only clusters with these labels")
	o.watchFlag(members)
	outputFlag(members, &o.output, "instead of the table", "wide", "json", "yaml", "name")
	return members
}

func (c *cli) listMembers(ctx context.Context, o fleetListOptions) error {
	if err := o.check("wide", "json", "yaml", "name"); err != nil {
		return err
	}
	h, err := c.newHub()
	if err != nil {
		return err
	}
	of := source{api.FleetMemberResource(), "", metav1.ListOptions{LabelSelector: o.selector}}
	if o.output != "" && o.output != "wide" {
		return c.printSource(ctx, h, of, o)
	}
	return c.showTable(ctx, h, fleetTable{kind: "FleetMembers", of: []source{of}}, o, func() (*metav1.Table, error) {
		members, err := h.readMembers(ctx, o.selector)
		if err != nil {
			return nil, err
		}
		return fleetview.MemberTable(members, time.Now())
	})
}
