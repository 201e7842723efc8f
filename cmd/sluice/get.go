package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"sluice.dev/sluice/cmd/internal/view"
	"sluice.dev/sluice/cmd/sluice/internal/terminal"
	"sluice.dev/sluice/pkg/api"
)

type getOptions struct {
	output        string
	watch, spaces bool
}

func (c *cli) getCommand() *cobra.Command {
	var o getOptions
	get := &cobra.Command{
		Use:   "get rollouts|rollout NAME",
		Short: "Show Rollouts as a table, or one of them with all that belongs to it",
		Long: "Without a name, show the Rollouts of the namespace as kubectl does. With a name, show the Rollout, where it stands and what it waits for,\n" +
			"with the command to type, its revisions and pods, and where the traffic goes.",
		Example: fmt.Sprintf("  %[1]s get rollouts -A\n  %[1]s get rollout checkout -n shop -w", c.command),
		Args:    cobra.RangeArgs(1, 2), ValidArgsFunction: c.completeGet,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, _ := strings.Cut(strings.Join(args, "/"), "/")
			if !isRollout(kind) {
				return fmt.Errorf("%q is nothing that this command shows; use: %s get rollouts, or %[2]s get rollout NAME", kind, c.command)
			}
			return c.getRollout(cmd.Context(), name, o)
		},
	}
	o.add(get, "wide, json, yaml or name instead of the table or the tree")
	return get
}

func (o *getOptions) add(cmd *cobra.Command, output string) {
	cmd.Flags().StringVarP(&o.output, "output", "o", "", output)
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "go on showing what changes until interrupted")
	cmd.Flags().BoolVarP(&o.spaces, "all-namespaces", "A", false, "show the Rollouts of all namespaces")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"wide", "json", "yaml", "name"}, cobra.ShellCompDirectiveNoFileComp))
}

func (c *cli) getRollout(ctx context.Context, name string, o getOptions) error {
	switch o.output {
	case "", "wide", "json", "yaml", "name":
	default:
		return fmt.Errorf("--output %q: use wide, json, yaml or name", o.output)
	}
	switch {
	case o.spaces && name != "":
		return errors.New("a name and --all-namespaces do not go together; give the namespace with -n")
	case o.watch && o.output != "" && o.output != "wide":
		return fmt.Errorf("--watch shows the table and the tree only; leave out -o %s, or use: kubectl get rollouts -w -o %[1]s", o.output)
	case o.output == "json" || o.output == "yaml" || o.output == "name":
		return c.getObjects(ctx, name, o)
	case name != "" && o.output == "":
		return c.getTree(ctx, name, o.watch)
	}
	return c.getTable(ctx, name, o)
}

func (c *cli) getTree(ctx context.Context, name string, watch bool) error {
	reader, namespace, err := c.newReader()
	if err != nil {
		return err
	}
	if !watch {
		shown, err := reader.ReadView(ctx, namespace, name)
		if err != nil {
			return c.notFound(ctx, namespace, name, err)
		}
		fmt.Fprintln(c.out, strings.Join(view.Render(shown, c.viewStyle()), "\n"))
		return nil
	}
	live := terminal.New(c.out, c.terminalHeight())
	defer live.Close()
	err = reader.FollowView(ctx, namespace, name, func(v view.View) error {
		return live.DrawLines(view.Render(v, c.viewStyle()), view.Render(withFrozenAges(v), c.viewStyle()))
	})
	if ctx.Err() != nil {
		return nil
	}
	return c.notFound(ctx, namespace, name, err)
}

// withFrozenAges returns a view whose ages do not grow, so that two views differ only after a change.
func withFrozenAges(v view.View) view.View {
	v.Now = v.Rollout.CreationTimestamp.Time
	return v
}

// notFound adds to the error of a missing Rollout the namespaces that have a Rollout of that name.
func (c *cli) notFound(ctx context.Context, namespace, name string, err error) error {
	if err == nil || !apierrors.IsNotFound(err) || api.Unserved(err) {
		return err
	}
	text := fmt.Sprintf("Error from server (NotFound): there is no Rollout %s in namespace %s.", name, namespace)
	if elsewhere := c.namespacesWith(ctx, name); len(elsewhere) > 0 {
		return said(fmt.Sprintf("%s There is one in %s: add -n %s.", text, strings.Join(elsewhere, ", "), elsewhere[0]))
	}
	return said(fmt.Sprintf("%s List what is there with: %s get rollouts -A", text, c.command))
}

// said is an error with a complete message.
type said string

func (s said) Error() string { return string(s) }

// namespacesWith returns the namespaces that have a Rollout of this name, as far as the user may list them.
func (c *cli) namespacesWith(ctx context.Context, name string) []string {
	config, _, err := c.clusterConfig()
	if err != nil {
		return nil
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil
	}
	found, err := client.Resource(api.RolloutResource()).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return nil
	}
	var list []string
	for _, r := range found.Items {
		list = append(list, r.GetNamespace())
	}
	return list
}
