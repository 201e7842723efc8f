package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"
	authentication "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/release"
	"sluice.dev/sluice/pkg/rollout"
)

// commander is the field manager of commands.
const commander = "sluice-command"

// answerTimeout is the default time for an executor to follow a command.
const answerTimeout = time.Minute

const commandCodes = `Exit codes:
  0  the executor has followed the command
  1  there is nothing to do, or the command could not be given
  3  the executor took the command away without following it; the message says why
  4  no executor has taken the command in time: it stays there, and counts when one does; or, with --wait, what follows takes longer`

type commandOptions struct {
	reason  string
	wait    bool
	timeout time.Duration
}

func (c *cli) abortCommand() *cobra.Command {
	var o commandOptions
	abort := &cobra.Command{
		Use: "abort ROLLOUT", Short: "Stop a release: all traffic goes back to the stable version",
		Long: "Stop the release that is under way. All traffic goes back to the stable version at once, and the canary is scaled away after\n" +
			"abortScaleDownDelaySeconds. The new version stays held: release another one, roll the workload back, or use retry.\n" +
			"It is recorded who did it.\n\n" + commandCodes,
		Example: fmt.Sprintf("  %[1]s abort checkout -n shop --reason \"orders fail\"\n  %[1]s abort rollout/checkout --wait", c.command),
		Args:    cobra.RangeArgs(1, 2), ValidArgsFunction: c.completeRollouts,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.commandRollout(cmd.Context(), args, api.CommandAbort, o)
		},
	}
	abort.Flags().StringVar(&o.reason, "reason", "", "why, for the record")
	o.addFlags(abort, "wait until nothing of the canary is left")
	return abort
}

func (c *cli) retryCommand() *cobra.Command {
	var o commandOptions
	retry := &cobra.Command{
		Use: "retry ROLLOUT", Short: "Start a release that was aborted again, from its first step",
		Long: "Start a release that was aborted, by its metrics or by a user, again from its first step.\n" +
			"It is recorded who did it.\n\n" + commandCodes,
		Example: fmt.Sprintf("  %[1]s retry checkout -n shop\n  %[1]s retry rollout/checkout --wait", c.command),
		Args:    cobra.RangeArgs(1, 2), ValidArgsFunction: c.completeRollouts,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.commandRollout(cmd.Context(), args, api.CommandRetry, o)
		},
	}
	retry.Flags().StringVar(&o.reason, "reason", "", "why, for the record")
	o.addFlags(retry, "wait until the release is paused, was stopped again, or has ended")
	return retry
}

func (c *cli) promoteCommand() *cobra.Command {
	var o approveOptions
	var full bool
	promote := &cobra.Command{
		Use: "promote ROLLOUT", Short: "Let a paused release go on, or with --full skip all that is left of it",
		Long: "Approve the step that a release is paused at, as approve does. With --full skip all steps that are left, with their pauses and\n" +
			"analyses: the new version gets all pods and all traffic at once, and the release ends as a success. It is recorded who did it.\n\n" + commandCodes,
		Example: fmt.Sprintf("  %[1]s promote checkout -n shop\n  %[1]s promote rollout/checkout --full --reason \"hotfix\" --wait", c.command),
		Args:    cobra.RangeArgs(1, 2), ValidArgsFunction: c.completeRollouts,
		RunE: func(cmd *cobra.Command, args []string) error {
			if full {
				return c.commandRollout(cmd.Context(), args, api.CommandPromote, commandOptions{reason: o.reason, wait: o.wait, timeout: o.timeout})
			}
			if o.reason != "" {
				return errors.New("--reason is noted down with --full only; leave it out, or add --full")
			}
			return c.approveRollout(cmd.Context(), args, o)
		},
	}
	promote.Flags().BoolVar(&full, "full", false, "skip all steps that are left, with their pauses and analyses")
	promote.Flags().Int32Var(&o.step, "step", 0, "only if the release is paused at this step, counted from 1")
	promote.Flags().StringVar(&o.reason, "reason", "", "why, for the record; with --full")
	promote.Flags().BoolVar(&o.wait, "wait", false, "wait until the release is paused again or has ended, with --full until it has ended")
	promote.Flags().DurationVar(&o.timeout, "timeout", answerTimeout, "how long --full waits for an executor, and --wait for what follows; 0 has no limit")
	promote.MarkFlagsMutuallyExclusive("full", "step")
	_ = promote.RegisterFlagCompletionFunc("step", c.completeSteps)
	return promote
}

func (o *commandOptions) addFlags(cmd *cobra.Command, wait string) {
	cmd.Flags().BoolVar(&o.wait, "wait", false, wait)
	cmd.Flags().DurationVar(&o.timeout, "timeout", answerTimeout, "how long to wait for an executor, and with --wait again for what follows; 0 has no limit")
}

func (c *cli) commandRollout(ctx context.Context, args []string, action api.CommandAction, o commandOptions) error {
	name, err := rolloutName(args)
	if err != nil {
		return err
	}
	g, err := c.newCommanding(ctx, name, o)
	if err != nil {
		return err
	}
	given, err := g.giveCommand(ctx, action)
	if err != nil {
		return err
	}
	if err := g.awaitAnswer(ctx, given); err != nil || !o.wait {
		return err
	}
	return g.awaitAftermath(ctx, given)
}

// awaitAftermath waits for the results of a command that an executor has followed.
func (g *commanding) awaitAftermath(ctx context.Context, given api.Command) error {
	switch given.Action {
	case api.CommandAbort:
		return g.followRollout(ctx, "something of the canary is left", func(r *api.Rollout) (string, bool, error) {
			return release.CommandAfterDeletion(r, given)
		})
	case api.CommandPromote:
		return g.followRollout(ctx, "the release has not ended", func(r *api.Rollout) (string, bool, error) {
			return release.ApprovalProgress(r, rollout.Pause{Epoch: given.Epoch, PauseSeq: math.MaxInt64}, g.command)
		})
	}
	return g.followRollout(ctx, "the release is not at its next pause", func(r *api.Rollout) (string, bool, error) {
		if m := r.Status.Sluice; m != nil && m.Epoch == given.Epoch {
			return "the executor has removed the aborted version", false, nil
		}
		return release.ApprovalProgress(r, rollout.Pause{Epoch: given.Epoch + 1}, g.command)
	})
}

func (g *commanding) followRollout(ctx context.Context, what string, look func(*api.Rollout) (string, bool, error)) error {
	return g.showProgress(ctx, g.read, g.access.namespace, g.name, g.timeout, what, look)
}

// commanding is one command to one Rollout.
type commanding struct {
	*cli
	access
	commandOptions
	name string
	by   release.Sender
	// step restricts an approval to one step, counted from 1; 0 accepts any step.
	step int32
}

func (c *cli) newCommanding(ctx context.Context, name string, o commandOptions) (*commanding, error) {
	a, err := c.newAccess()
	if err != nil {
		return nil, err
	}
	g := &commanding{cli: c, access: a, commandOptions: o, name: name}
	user, err := whoAmI(ctx, a.config)
	g.by = release.Sender{User: user, Comment: o.reason, Program: c.command}
	return g, err
}

// whoAmI asks the API server for the user name of its client; each authenticated user may ask.
func whoAmI(ctx context.Context, config *rest.Config) (string, error) {
	client, err := authenticationclient.NewForConfig(config)
	if err != nil {
		return "", fmt.Errorf("make client: %w", err)
	}
	review, err := client.SelfSubjectReviews().Create(ctx, &authentication.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return review.Status.UserInfo.Username, nil
}

// giveCommand writes the command into the status.
func (g *commanding) giveCommand(ctx context.Context, action api.CommandAction) (api.Command, error) {
	var given api.Command
	r, err := g.patchStatus(ctx, g.access, g.name, commander, func(r *api.Rollout, again bool) ([]byte, error) {
		now, err := release.NewCommand(r, action, g.by)
		if err != nil {
			return nil, err
		}
		if at := r.Status.Sluice.Step; g.step != 0 && g.step != at {
			return nil, fmt.Errorf("Rollout %s/%s is at step %d, not at step %d; approve that one with --step %[3]d", r.Namespace, r.Name, at, g.step)
		}
		if again && now != given {
			return nil, fmt.Errorf("not given, the release has moved meanwhile and is at step %d, in state %s, now: %s", r.Status.CurrentStepIndex, r.Status.Sluice.State, r.Status.Message)
		}
		given = now
		return release.CommandPatch(r, now)
	})
	if err == nil {
		fmt.Fprintln(g.errors, release.PredictCommand(r, given))
	}
	return given, err
}

// awaitAnswer waits until an executor has removed the command, and shows its result.
func (g *commanding) awaitAnswer(ctx context.Context, given api.Command) error {
	err := g.followRollout(ctx, "", func(r *api.Rollout) (string, bool, error) { return release.CommandResult(r, given, g.command) })
	var slow late
	switch {
	case errors.Is(err, release.ErrCommandRefused):
		return outcome{codeRefused, err.Error()}
	case errors.As(err, &slow):
		return outcome{codeUndecided, fmt.Sprintf("undecided: the command %s for Rollout %s/%s is written, and no executor has taken it within %s. It counts when one does. Find out why with: %s check",
			given.Action, g.access.namespace, g.name, g.timeout, g.command)}
	}
	return err
}
