package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/release"
)

// pauser is the field manager of spec.strategy.paused.
const pauser = "sluice-pause"

func (c *cli) pauseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "pause ROLLOUT", Short: "Freeze a release where it is",
		Long: "Set spec.strategy.paused: the release under way stops in its current step, and the next one stops as soon as it begins.\n" +
			"Nothing is taken back; a rollback of the workload and an abort are still carried out. It is the same write as kubectl-kruise's and as\n" +
			"kubectl patch rollout NAME --type=merge -p '{\"spec\":{\"strategy\":{\"paused\":true}}}'.",
		Example: fmt.Sprintf("  %[1]s pause checkout -n shop\n  %[1]s pause rollout/checkout", c.command),
		Args:    cobra.RangeArgs(1, 2), ValidArgsFunction: c.completeRollouts,
		RunE: func(cmd *cobra.Command, args []string) error { return c.setPaused(cmd.Context(), args, true) },
	}
}

func (c *cli) resumeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "resume ROLLOUT", Short: "Let a frozen release go on",
		Long: "Take spec.strategy.paused away: the release goes on where it was frozen. It approves nothing: a step that waits for approval still\n" +
			"does. It is the same write as kubectl-kruise's and as\n" +
			"kubectl patch rollout NAME --type=merge -p '{\"spec\":{\"strategy\":{\"paused\":null}}}'.",
		Example: fmt.Sprintf("  %[1]s resume checkout -n shop\n  %[1]s resume rollout/checkout", c.command),
		Args:    cobra.RangeArgs(1, 2), ValidArgsFunction: c.completeRollouts,
		RunE: func(cmd *cobra.Command, args []string) error { return c.setPaused(cmd.Context(), args, false) },
	}
}

func (c *cli) setPaused(ctx context.Context, args []string, paused bool) error {
	a, r, err := c.namedRollout(ctx, args)
	if err != nil {
		return err
	}
	value, done := any(nil), "resumed"
	switch {
	case paused && r.Spec.Strategy.Paused:
		return fmt.Errorf("Rollout %s/%s is already paused; let it go on with: %s resume %s -n %[1]s", r.Namespace, r.Name, c.command, r.Name)
	case paused:
		value, done = true, "paused"
	case !r.Spec.Strategy.Paused:
		return c.notFrozen(r)
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"strategy": map[string]any{"paused": value}}})
	if err != nil {
		return fmt.Errorf("write patch: %w", err)
	}
	_, err = a.write.Resource(api.RolloutResource()).Namespace(a.namespace).Patch(ctx, r.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: pauser})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "rollout.%s/%s %s\n", api.Group, r.Name, done)
	if paused {
		fmt.Fprintln(c.errors, c.whatFreezes(r))
	}
	return nil
}

// notFrozen explains why there is nothing to resume, and suggests another command.
func (c *cli) notFrozen(r *api.Rollout) error {
	current := r.Status.Common()
	if r.Status.Phase == api.PhaseProgressing && current != nil && current.CurrentStepState == api.StepPaused {
		return fmt.Errorf("Rollout %s/%s is not paused as a whole, so there is nothing to resume. %s", r.Namespace, r.Name, release.DescribeApproval(r, current, c.command))
	}
	return fmt.Errorf("Rollout %s/%s is not paused, so there is nothing to resume", r.Namespace, r.Name)
}

func (c *cli) whatFreezes(r *api.Rollout) string {
	resume := fmt.Sprintf("%s resume %s -n %s", c.command, r.Name, r.Namespace)
	if current := r.Status.Common(); r.Status.Phase == api.PhaseProgressing && current != nil {
		return fmt.Sprintf("The release stands still at step %d of %d, in state %s, until: %s", current.CurrentStepIndex, len(release.Steps(r)), current.CurrentStepState, resume)
	}
	return "No release is under way. The next one stands still as soon as it begins, until: " + resume
}
