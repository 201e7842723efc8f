package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sluice.dev/sluice/cmd/internal/view"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/release"
	"sluice.dev/sluice/pkg/rollout"
)

type approveOptions struct {
	step    int32
	force   bool
	reason  string
	wait    bool
	timeout time.Duration
}

func (c *cli) approveCommand() *cobra.Command {
	var o approveOptions
	approve := &cobra.Command{
		Use: "approve ROLLOUT", Short: "Let a paused release go on to its next step",
		Long: "Approve the step that a release is paused at. It is the same write as kubectl-kruise's and as\n" +
			"kubectl patch rollout NAME --subresource=status --type=merge -p '{\"status\":{\"canaryStatus\":{\"currentStepState\":\"StepReady\"}}}',\n" +
			"but it never lands on a later step than the one that was looked at.\n\n" +
			"A step whose metrics failed, or have not spoken yet, is approved with --force only. Then the executor notes down who did that, and\n" +
			"why, and the exit codes 3 and 4 mean the same as for abort and retry. With --wait it is 4 when there is no next pause and no end in time.",
		Example: fmt.Sprintf("  %[1]s approve checkout -n shop\n  %[1]s approve rollout/checkout --step 2 --wait\n"+
			"  %[1]s approve checkout --force --reason \"the errors are a test of ours\"", c.command),
		Args: cobra.RangeArgs(1, 2), ValidArgsFunction: c.completeRollouts,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.approveRollout(cmd.Context(), args, o)
		},
	}
	approve.Flags().Int32Var(&o.step, "step", 0, "approve only if the release is paused at this step, counted from 1")
	approve.Flags().BoolVar(&o.force, "force", false, "approve regardless of the metrics, also while the analyzer measures them")
	approve.Flags().StringVar(&o.reason, "reason", "", "why, for the record; with --force")
	approve.Flags().BoolVar(&o.wait, "wait", false, "wait until the release is paused again or has ended")
	approve.Flags().DurationVar(&o.timeout, "timeout", 0, "how long --wait waits; 0 has no limit")
	_ = approve.RegisterFlagCompletionFunc("step", c.completeSteps)
	return approve
}

func (c *cli) approveRollout(ctx context.Context, args []string, o approveOptions) error {
	name, err := rolloutName(args)
	if err != nil {
		return err
	}
	switch {
	case o.force:
		return c.forceApproval(ctx, name, o)
	case o.reason != "":
		return errors.New("--reason is noted down with --force only; leave it out, or add --force")
	}
	a, err := c.newAccess()
	if err != nil {
		return err
	}
	var pause rollout.Pause
	approved, err := c.patchStatus(ctx, a, name, approver, func(r *api.Rollout, again bool) ([]byte, error) {
		if again {
			if err := checkUnmoved(r, pause, c.command); err != nil {
				return nil, err
			}
			return release.ApprovalPatch(r)
		}
		now, err := release.PauseToApprove(r, o.step, c.command)
		if err != nil {
			return nil, err
		}
		pause = now
		return release.ApprovalPatch(r)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "rollout.%s/%s approved at step %d\n", api.Group, name, pause.Step)
	if approved.Spec.Strategy.Paused {
		fmt.Fprintf(c.errors, "The release stands still until spec.strategy.paused is false: %s resume %s -n %s\n", c.command, name, a.namespace)
	}
	if o.wait {
		return c.awaitNextPause(ctx, a.read, approved, pause, o.timeout)
	}
	return nil
}

// forceApproval has the executor approve the step against its metrics.
func (c *cli) forceApproval(ctx context.Context, name string, o approveOptions) error {
	g, err := c.newCommanding(ctx, name, commandOptions{reason: o.reason, wait: o.wait, timeout: answerTimeout})
	if err != nil {
		return err
	}
	g.step = o.step
	given, err := g.giveCommand(ctx, api.CommandApprove)
	if err != nil {
		return err
	}
	if err := g.awaitAnswer(ctx, given); err != nil || !o.wait {
		return err
	}
	r, err := g.read.ReadRollout(ctx, g.access.namespace, name)
	if err != nil {
		return c.notFound(ctx, g.access.namespace, name, err)
	}
	return c.awaitNextPause(ctx, g.read, r, rollout.Pause{Epoch: given.Epoch, PauseSeq: given.PauseSeq, Step: r.Status.CurrentStepIndex}, o.timeout)
}

// approver is the field manager of approvals. The status of a Rollout shows by it who approved, so it must differ from the field manager of executors.
const approver = "sluice-approve"

// checkUnmoved returns an error if the Rollout has left the pause that the user saw.
func checkUnmoved(r *api.Rollout, pause rollout.Pause, program string) error {
	now, err := release.PauseToApprove(r, 0, program)
	if err != nil {
		return fmt.Errorf("not approved, the release has moved meanwhile: %w", err)
	}
	if now != pause {
		return fmt.Errorf("not approved, the release has moved meanwhile and is paused at step %d now", now.Step)
	}
	return nil
}

// awaitNextPause shows the progress of the release until it needs the next decision or has ended.
func (c *cli) awaitNextPause(ctx context.Context, reader *view.Reader, r *api.Rollout, pause rollout.Pause, timeout time.Duration) error {
	return c.showProgress(ctx, reader, r.Namespace, r.Name, timeout, "the release is not at its next pause", func(now *api.Rollout) (string, bool, error) {
		return release.ApprovalProgress(now, pause, c.command)
	})
}
