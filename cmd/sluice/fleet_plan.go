package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"sluice.dev/sluice/cmd/internal/color"
	"sluice.dev/sluice/cmd/sluice/internal/fleetview"
	"sluice.dev/sluice/pkg/fleet"
)

func (c *cli) fleetPlanCommand() *cobra.Command {
	var o fleetListOptions
	plan := &cobra.Command{
		Use: "plan FLEETROLLOUT", Short: "Show which clusters each wave of the next release would take",
		Long: "Show which clusters each wave would take if a release began now, in the order of their permits. Percentages of the plan are shown as\n" +
			"numbers of clusters. The hub draws the clusters in the same way when each wave begins. The command changes nothing.\n\n" +
			"Exit codes:\n  0  the plan is valid\n  1  it is not, or something could not be read",
		Example: fmt.Sprintf("  %[1]s fleet plan checkout -n shop\n  %[1]s fleet plan checkout -o json", c.command),
		Args:    cobra.ExactArgs(1), ValidArgsFunction: c.completeFleetRollouts,
		RunE: func(cmd *cobra.Command, args []string) error { return c.planFleet(cmd.Context(), args[0], o) },
	}
	outputFlag(plan, &o.output, "instead of text", "json", "yaml")
	return plan
}

func (c *cli) planFleet(ctx context.Context, arg string, o fleetListOptions) error {
	if err := o.check("json", "yaml"); err != nil {
		return err
	}
	h, r, err := c.namedFleetRollout(ctx, arg)
	if err != nil {
		return err
	}
	v := h.readFleetView(ctx, r)
	if v.Strategy, err = h.readStrategy(ctx, r); err != nil {
		return c.fleetProblem(ctx, h, "", err)
	}
	if v.Members, err = h.readMembers(ctx, ""); err != nil {
		return c.fleetProblem(ctx, h, "", err)
	}
	spec, err := fleet.Parse(*v.Strategy)
	if err != nil {
		return fmt.Errorf("the waves of %s are not valid: %w", fullName(r), err)
	}
	members := map[string]labels.Set{}
	for _, m := range v.Members {
		members[m.Name] = m.Labels
	}
	shown := fleetview.NewPlan(v, fleet.Forecast(spec, string(r.UID), members))
	if r.Spec.Plan != "" {
		if plan, err := h.readPlan(ctx, r.Spec.Plan); err == nil && !slices.Contains(plan.Spec.Namespaces, r.Namespace) {
			shown.Warnings = append(shown.Warnings, fmt.Sprintf("the FleetPlan %s is not for the namespace %s, so no release begins; its owner must add it to spec.namespaces", plan.Name, r.Namespace))
		}
	}
	if o.output != "" {
		return c.printValues(o.output, shown)
	}
	for _, line := range fleetview.PlanLines(shown, color.Ink{On: c.viewStyle().Color}) {
		fmt.Fprintln(c.out, line)
	}
	return nil
}
