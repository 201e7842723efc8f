package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/cmd/internal/view"
	"sluice.dev/sluice/cmd/sluice/internal/listing"
	"sluice.dev/sluice/cmd/sluice/internal/table"
	"sluice.dev/sluice/pkg/api"
)

func (c *cli) listCommand() *cobra.Command {
	var o getOptions
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "Show the Rollouts as a table: step, traffic, pods, and what they wait for",
		Long: "Show the Rollouts of the namespace, each with the step that its release is at, the traffic and pods of the new version, and what it\n" +
			"does or waits for. Outside a release these columns are empty. " + c.command + " get rollouts shows the columns that kubectl shows.",
		Example: fmt.Sprintf("  %[1]s list -n shop\n  %[1]s list -A -w\n  %[1]s list -o json", c.command),
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.listRollouts(cmd.Context(), o) },
	}
	o.add(list, "wide, json, yaml or name instead of the table")
	return list
}

func (c *cli) listRollouts(ctx context.Context, o getOptions) error {
	switch o.output {
	case "", "wide":
	case "json", "yaml", "name":
		if o.watch {
			return errors.New("--watch shows the table only; leave out -o " + o.output)
		}
		return c.getObjects(ctx, "", o)
	default:
		return fmt.Errorf("--output %q: use wide, json, yaml or name", o.output)
	}
	a, err := c.newAccess()
	if err != nil {
		return err
	}
	if o.spaces {
		a.namespace = ""
	}
	printer := table.Printer{Out: c.out, Wide: o.output == "wide", Namespaces: o.spaces}
	show := func() error {
		rollouts, err := a.readRollouts(ctx)
		if err != nil {
			return err
		}
		t, err := listing.RolloutTable(rollouts, time.Now())
		if err != nil {
			return err
		}
		return printer.PrintRows(t)
	}
	if o.watch {
		return a.read.FollowNamespace(ctx, a.namespace, show)
	}
	if err := show(); err != nil {
		return err
	}
	if printer.Empty() {
		fmt.Fprintln(c.errors, nothingIn(a.namespace))
	}
	return nil
}

func (a access) readRollouts(ctx context.Context) ([]*api.Rollout, error) {
	list, err := a.write.Resource(api.RolloutResource()).Namespace(a.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var rollouts []*api.Rollout
	for i := range list.Items {
		r, err := view.ToRollout(&list.Items[i])
		if err != nil {
			return nil, err
		}
		rollouts = append(rollouts, r)
	}
	return rollouts, nil
}
