package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/release"
	"sluice.dev/sluice/pkg/rollout"
)

// jumper is the field manager of jumps. The status of a Rollout shows by it who jumped.
const jumper = "sluice-jump"

type jumpOptions struct {
	wait    bool
	timeout time.Duration
}

const jumpCodes = `Exit codes:
  0  the release goes on with that step
  1  it could not: the message says why, and nothing was written
  3  the executor took it back without following it; the message says why
  4  no executor has followed in time: it counts when one does; or, with --wait, the step takes longer`

func (c *cli) jumpCommand() *cobra.Command {
	var o jumpOptions
	jump := &cobra.Command{
		Use: "jump ROLLOUT STEP", Short: "Let a release go on with another step, later or earlier",
		Long: "Leave the step that the release is at, paused or not, and go on with another one, counted from 1: forward, back, or the same one from\n" +
			"its beginning. Traffic follows what that step says; a jump back takes no pods away. It is the same write as kubectl-kruise's (rollout undo --fast) and as\n" +
			"kubectl patch rollout NAME --subresource=status --type=merge -p '{\"status\":{\"canaryStatus\":{\"nextStepIndex\":STEP}}}'.\n" +
			"The step that follows the current one is reached by an approval instead.\n\n" + jumpCodes,
		Example: fmt.Sprintf("  %[1]s jump checkout 1 -n shop\n  %[1]s jump rollout/checkout 4 --wait", c.command),
		Args:    cobra.RangeArgs(2, 3), ValidArgsFunction: c.completeJump,
		RunE: func(cmd *cobra.Command, args []string) error {
			last := len(args) - 1
			step, err := strconv.ParseInt(args[last], 10, 32)
			if err != nil {
				return fmt.Errorf("%q is no step; give its number, counted from 1, after the name of the Rollout", args[last])
			}
			name, err := rolloutName(args[:last])
			if err != nil {
				return err
			}
			return c.jumpTo(cmd.Context(), name, int32(step), o)
		},
	}
	jump.Flags().BoolVar(&o.wait, "wait", false, "wait until the release is paused again or has ended")
	jump.Flags().DurationVar(&o.timeout, "timeout", answerTimeout, "how long to wait for an executor, and with --wait again for what follows; 0 has no limit")
	return jump
}

func (c *cli) jumpTo(ctx context.Context, name string, step int32, o jumpOptions) error {
	a, err := c.newAccess()
	if err != nil {
		return err
	}
	r, made, err := c.giveJump(ctx, a, name, step)
	if err != nil {
		return err
	}
	err = c.showProgress(ctx, a.read, a.namespace, name, o.timeout, "", func(r *api.Rollout) (string, bool, error) { return release.JumpResult(r, made) })
	var slow late
	switch {
	case errors.Is(err, release.ErrJumpRefused):
		return outcome{codeRefused, err.Error()}
	case errors.As(err, &slow):
		return outcome{codeUndecided, fmt.Sprintf("undecided: the jump of Rollout %s/%s to step %d is written, and no executor has followed it within %s. It counts when one does. Find out why with: %s check",
			a.namespace, name, step, o.timeout, c.command)}
	case err != nil || !o.wait:
		return err
	}
	return c.awaitNextPause(ctx, a.read, r, rollout.Pause{Epoch: made.Epoch, PauseSeq: r.Status.Sluice.PauseSeq}, o.timeout)
}

// giveJump writes the jump into the status.
func (c *cli) giveJump(ctx context.Context, a access, name string, step int32) (*api.Rollout, release.Jump, error) {
	var given release.Jump
	r, err := c.patchStatus(ctx, a, name, jumper, func(r *api.Rollout, again bool) ([]byte, error) {
		now, err := release.NewJump(r, step, c.command)
		if err != nil {
			return nil, err
		}
		if again && (now.Epoch != given.Epoch || now.From != given.From) {
			return nil, fmt.Errorf("not jumped, the release has moved meanwhile and is at step %d now", now.From)
		}
		given = now
		return release.JumpPatch(r, now)
	})
	return r, given, err
}
