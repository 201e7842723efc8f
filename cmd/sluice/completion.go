package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"sluice.dev/sluice/pkg/api"
)

// completionDeadline is how long a shell waits for the names of Rollouts.
const completionDeadline = 3 * time.Second

// completeGet offers the kinds that can be shown, and then names.
func (c *cli) completeGet(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return []string{"rollout", "rollouts"}, cobra.ShellCompDirectiveNoFileComp
	}
	return c.completeRollouts(cmd, args, typed)
}

// completeRollouts offers the names of the Rollouts in the namespace.
func (c *cli) completeRollouts(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && !isRollout(args[0]) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	config, namespace, err := c.config()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionDeadline)
	defer cancel()
	list, err := client.Resource(api.RolloutResource()).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, r := range list.Items {
		names = append(names, r.GetName())
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
