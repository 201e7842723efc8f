package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice.dev/sluice/cmd/sluice/internal/fleetview"
	"sluice.dev/sluice/pkg/api"
)

func (c *cli) fleetAttentionCommand() *cobra.Command {
	var o fleetListOptions
	attention := &cobra.Command{
		Use: "attention", Short: "Show what needs a person, the oldest first, each with the command to type",
		Long: "Show the FleetRollouts of the namespace that wait for a person, and their clusters that do. Show also the clusters of the fleet that the\n" +
			"hub does not hear or cannot give permits. The oldest comes first, each with the command to type. A command for a cluster itself names the\n" +
			"cluster as the context of your kubeconfig.",
		Example: fmt.Sprintf("  %[1]s fleet attention -A\n  %[1]s fleet attention -n shop -o json", c.command),
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.showAttention(cmd.Context(), o) },
	}
	o.spacesFlag(attention)
	o.selectorFlag(attention, "look only at FleetRollouts with these labels")
	outputFlag(attention, &o.output, "instead of text", "json", "yaml")
	return attention
}

func (c *cli) showAttention(ctx context.Context, o fleetListOptions) error {
	if err := o.check("json", "yaml"); err != nil {
		return err
	}
	h, err := c.newHub()
	if err != nil {
		return err
	}
	if o.spaces {
		h.namespace = ""
	}
	rollouts, err := readList[api.FleetRollout](ctx, h, api.FleetRolloutResource(), h.namespace, o.selector)
	if err != nil {
		return c.fleetProblem(ctx, h, "", err)
	}
	members, err := h.readMembers(ctx, "")
	if err != nil {
		fmt.Fprintf(c.errors, "FleetMembers cannot be shown: %v\n", err)
	}
	style := c.fleetStyle()
	style.Namespaced = style.Namespaced || o.spaces
	list := fleetview.ReadAttention(rollouts, members, style)
	if o.output != "" {
		return c.printValues(o.output, map[string]any{"attention": list})
	}
	if len(list) == 0 {
		text := "Nothing needs a person."
		if err == nil && len(members) == 0 {
			text = c.chooseHub()
		}
		fmt.Fprintln(c.errors, text)
		return nil
	}
	_, err = fmt.Fprintln(c.out, strings.Join(fleetview.AttentionLines(list, style, time.Now()), "\n"))
	return err
}
