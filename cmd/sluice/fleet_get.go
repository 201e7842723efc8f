package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/cmd/internal/view"
	"sluice.dev/sluice/cmd/sluice/internal/fleetview"
	"sluice.dev/sluice/cmd/sluice/internal/terminal"
	"sluice.dev/sluice/pkg/api"
)

func (c *cli) fleetGetCommand() *cobra.Command {
	var o fleetListOptions
	get := &cobra.Command{
		Use: "get FLEETROLLOUT", Short: "Show a release with its waves and clusters",
		Long: "Show a release over many clusters: the waves with their clusters, and the place that it has reached. If it waits for a person, show the\n" +
			"command to type. Each wave lists 10 clusters at most, those first that need a person; " + c.command + " fleet targets lists all.",
		Example: fmt.Sprintf("  %[1]s fleet get checkout -n shop\n  %[1]s fleet get checkout -n shop -w --context hub\n  %[1]s fleet get checkout -o yaml", c.command),
		Args:    cobra.ExactArgs(1), ValidArgsFunction: c.completeFleetRollouts,
		RunE: func(cmd *cobra.Command, args []string) error { return c.getFleet(cmd.Context(), args[0], o) },
	}
	outputFlag(get, &o.output, "instead of the tree", "json", "yaml", "name")
	o.watchFlag(get)
	return get
}

func (c *cli) getFleet(ctx context.Context, arg string, o fleetListOptions) error {
	if err := o.check("json", "yaml", "name"); err != nil {
		return err
	}
	h, r, err := c.namedFleetRollout(ctx, arg)
	if err != nil {
		return err
	}
	if o.output != "" {
		object, err := h.objects.Resource(api.FleetRolloutResource()).Namespace(h.namespace).Get(ctx, r.Name, metav1.GetOptions{})
		if err != nil {
			return c.fleetProblem(ctx, h, r.Name, err)
		}
		object.SetManagedFields(nil)
		return c.printFleetObjects(o.output, object.Object, object)
	}
	if !o.watch {
		fmt.Fprintln(c.out, strings.Join(fleetview.Render(h.readSettledView(ctx, r), c.fleetStyle()), "\n"))
		return nil
	}
	live := terminal.New(c.out, c.terminalHeight())
	defer live.Close()
	err = h.followView(ctx, r, func(v fleetview.View) error {
		still := v
		still.Now = v.Rollout.CreationTimestamp.Time // ages that do not grow
		return live.DrawLines(fleetview.Render(v, c.fleetStyle()), fleetview.Render(still, c.fleetStyle()))
	})
	if ctx.Err() != nil {
		return nil
	}
	return c.fleetProblem(ctx, h, r.Name, err)
}

// settleRounds bounds how often the objects of a FleetRollout are read again until they agree. The delay before each doubles, to 3.1 s in all.
const settleRounds = 5

// readSettledView reads the objects of a FleetRollout, and reads them again while the hub is still writing some of them. If they do not agree in time, the view
// says so.
func (h hub) readSettledView(ctx context.Context, r *api.FleetRollout) fleetview.View {
	v := h.readFleetView(ctx, r)
	delay := 100 * time.Millisecond
	for range settleRounds {
		if v.Settled() || !view.SleepContext(ctx, delay) {
			return v
		}
		next, err := h.readFleetRollout(ctx, r.Name)
		if err != nil {
			break
		}
		v, delay = h.readFleetView(ctx, next), 2*delay
	}
	if !v.Settled() {
		v.Unread = append(v.Unread, "Some clusters are shown as they were: the hub is still writing their FleetTargets, or no executor of it runs")
	}
	return v
}

// readFleetView reads the objects of a FleetRollout. The view names those that cannot be read.
func (h hub) readFleetView(ctx context.Context, r *api.FleetRollout) fleetview.View {
	v := fleetview.View{Rollout: r, Now: time.Now()}
	unread := func(what string, err error) {
		v.Unread = append(v.Unread, fmt.Sprintf("%s cannot be shown: %v", what, err))
	}
	var err error
	if v.Targets, err = h.readTargets(ctx, r); err != nil {
		unread("FleetTargets", err)
	}
	if v.Members, err = h.readMembers(ctx, ""); err != nil {
		v.Members = nil
		unread("FleetMembers", err)
	}
	if strategy, err := h.readStrategy(ctx, r); err == nil {
		v.Strategy = strategy
	} else if r.Status.Plan == nil {
		unread("FleetPlan "+r.Spec.Plan, err)
	}
	return v
}

// readStrategy returns the strategy of the next release of a FleetRollout.
func (h hub) readStrategy(ctx context.Context, r *api.FleetRollout) (*api.FleetStrategy, error) {
	if r.Spec.Plan == "" {
		return &r.Spec.FleetStrategy, nil
	}
	plan, err := h.readPlan(ctx, r.Spec.Plan)
	if err != nil {
		return nil, err
	}
	return &plan.Spec.FleetStrategy, nil
}

func (h hub) readPlan(ctx context.Context, name string) (*api.FleetPlan, error) {
	object, err := h.objects.Resource(api.FleetPlanResource()).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return typed[api.FleetPlan](object)
}
