package main

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice.dev/sluice/cmd/sluice/internal/history"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/release"
)

// completionDeadline bounds the time that a shell waits for the names of Rollouts.
func completionDeadline() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("SLUICE_COMPLETION_TIMEOUT")); err == nil && d > 0 {
		return d
	}
	return 3 * time.Second
}

// completeGet completes the kinds, and then names.
func (c *cli) completeGet(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return []string{"rollout", "rollouts"}, cobra.ShellCompDirectiveNoFileComp
	}
	return c.completeRollouts(cmd, args, typed)
}

// completeRollouts completes the names of the Rollouts in the namespace.
func (c *cli) completeRollouts(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && !isRollout(args[0]) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.offerCompletions(cmd, func(ctx context.Context, a access) ([]string, error) {
		rollouts, err := a.readRollouts(ctx)
		var names []string
		for _, r := range rollouts {
			names = append(names, r.Name)
		}
		return names, err
	})
}

// completeJump completes Rollouts, and then the steps of the given one.
func (c *cli) completeJump(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 || len(args) == 1 && isRollout(args[0]) {
		return c.completeRollouts(cmd, args, typed)
	}
	if len(args) > 1 && !isRollout(args[0]) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.completeSteps(cmd, args, typed)
}

// completeSteps completes the steps of the given Rollout, with their descriptions.
func (c *cli) completeSteps(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.offerForRollout(cmd, args, func(_ context.Context, _ access, r *api.Rollout) ([]string, error) {
		var steps []string
		for i, does := range release.DescribeSteps(r) {
			steps = append(steps, cobra.CompletionWithDesc(strconv.Itoa(i+1), does))
		}
		return steps, nil
	})
}

// completeRevisions completes the workload revisions of the given Rollout, with their images.
func (c *cli) completeRevisions(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.offerForRollout(cmd, args, func(ctx context.Context, a access, r *api.Rollout) ([]string, error) {
		_, w, err := a.readRevisions(ctx, r)
		var numbers []string
		for _, r := range slices.Backward(w.Revisions) {
			numbers = append(numbers, cobra.CompletionWithDesc(strconv.FormatInt(r.Number, 10), strings.Join(r.Images(), ", ")))
		}
		return numbers, err
	})
}

// completeReleases completes the releases of the given Rollout, with their outcomes.
func (c *cli) completeReleases(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.offerForRollout(cmd, args, func(ctx context.Context, a access, r *api.Rollout) ([]string, error) {
		records, err := a.readRecords(ctx, r)
		var numbers []string
		for _, record := range slices.Backward(records) {
			numbers = append(numbers, cobra.CompletionWithDesc(strconv.FormatInt(record.Status.Epoch, 10), history.OutcomeText(record)))
		}
		return numbers, err
	})
}

// offerForRollout completes values that find reads from the given Rollout.
func (c *cli) offerForRollout(cmd *cobra.Command, args []string, find func(context.Context, access, *api.Rollout) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	name, err := rolloutName(args)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.offerCompletions(cmd, func(ctx context.Context, a access) ([]string, error) {
		r, err := a.read.ReadRollout(ctx, a.namespace, name)
		if err != nil {
			return nil, err
		}
		return find(ctx, a, r)
	})
}

// offerCompletions completes the values that find returns in time. It reports no errors to the shell.
func (c *cli) offerCompletions(cmd *cobra.Command, find func(context.Context, access) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	a, err := c.newAccess()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionDeadline())
	defer cancel()
	found, err := find(ctx, a)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}
