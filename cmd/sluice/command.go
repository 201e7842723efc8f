package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	authentication "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/cmd/internal/tree"
	"sluice.dev/sluice/cmd/sluice/internal/approval"
	"sluice.dev/sluice/cmd/sluice/internal/command"
	"sluice.dev/sluice/pkg/api"
)

// commander is the field manager of commands.
const commander = "sluice-command"

// answerTimeout is how long an executor may take to follow a command, unless the user says otherwise.
const answerTimeout = time.Minute

const commandCodes = `Exit codes:
  0  the executor has followed the command
  1  there is nothing to do, or the command could not be given
  3  the executor took the command away without following it; the message says why
  4  no executor has taken the command in time; it stays there, and counts when one does`

type commandOptions struct {
	reason  string
	wait    bool
	timeout time.Duration
}

func (c *cli) abort() *cobra.Command {
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
	o.add(abort, "wait until nothing of the canary is left")
	return abort
}

func (c *cli) retry() *cobra.Command {
	var o commandOptions
	retry := &cobra.Command{
		Use: "retry ROLLOUT", Short: "Start a release that was aborted again, from its first step",
		Long: "Start a release that was aborted, by its metrics or by somebody, again from its first step.\n" +
			"It is recorded who did it.\n\n" + commandCodes,
		Example: fmt.Sprintf("  %[1]s retry checkout -n shop\n  %[1]s retry rollout/checkout --wait", c.command),
		Args:    cobra.RangeArgs(1, 2), ValidArgsFunction: c.completeRollouts,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.commandRollout(cmd.Context(), args, api.CommandRetry, o)
		},
	}
	retry.Flags().StringVar(&o.reason, "reason", "", "why, for the record")
	o.add(retry, "wait until the release is paused, was stopped again, or has ended")
	return retry
}

func (o *commandOptions) add(cmd *cobra.Command, wait string) {
	cmd.Flags().BoolVar(&o.wait, "wait", false, wait)
	cmd.Flags().DurationVar(&o.timeout, "timeout", answerTimeout, "how long to wait for an executor, and with --wait again for what follows; 0 has no limit")
}

func (c *cli) commandRollout(ctx context.Context, args []string, action api.CommandAction, o commandOptions) error {
	name, err := rolloutName(args)
	if err != nil {
		return err
	}
	g, err := c.commander(ctx, name, o)
	if err != nil {
		return err
	}
	given, err := g.give(ctx, action)
	if err != nil {
		return err
	}
	if err := g.answer(ctx, given); err != nil || !o.wait {
		return err
	}
	if action == api.CommandAbort {
		return g.until(ctx, o.timeout, "something of the canary is left", func(r *api.Rollout) (string, bool, error) {
			return command.Gone(r, given)
		})
	}
	return g.until(ctx, o.timeout, "the release is not at its next pause", func(r *api.Rollout) (string, bool, error) {
		if m := r.Status.Sluice; m != nil && m.Epoch == given.Epoch {
			return "what was aborted is cleared away", false, nil
		}
		return approval.Progress(r, approval.Pause{Epoch: given.Epoch + 1}, c.command)
	})
}

// commanding is one command to one Rollout.
type commanding struct {
	*cli
	commandOptions
	read            *tree.Reader
	write           dynamic.Interface
	namespace, name string
	by              command.Giver
	// step restricts an approval to one step, counted from 1; 0 takes any.
	step int32
}

func (c *cli) commander(ctx context.Context, name string, o commandOptions) (*commanding, error) {
	a, err := c.access()
	if err != nil {
		return nil, err
	}
	g := &commanding{cli: c, commandOptions: o, read: a.read, write: a.write, namespace: a.namespace, name: name}
	user, err := whoAmI(ctx, a.config)
	g.by = command.Giver{User: user, Comment: o.reason, Program: c.command}
	return g, err
}

// whoAmI asks the API server by which name it knows the user; whoever may log in may ask.
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

// give writes the command. Somebody else's write in between is no reason to fail as long as the command still fits.
func (g *commanding) give(ctx context.Context, action api.CommandAction) (api.Command, error) {
	var first api.Command
	for again := false; ; again = true {
		r, err := g.read.Rollout(ctx, g.namespace, g.name)
		if err != nil {
			return first, g.notFound(ctx, g.namespace, g.name, err)
		}
		now, err := command.Make(r, action, g.by)
		if err != nil {
			return first, err
		}
		if at := r.Status.Sluice.Step; g.step != 0 && g.step != at {
			return first, fmt.Errorf("Rollout %s/%s is at step %d, not at step %d; approve that one with --step %[3]d", r.Namespace, r.Name, at, g.step)
		}
		if again && now != first {
			return first, fmt.Errorf("not given, the release has moved meanwhile and is at step %d, in state %s, now: %s", r.Status.CurrentStepIndex, r.Status.Sluice.State, r.Status.Message)
		}
		first = now
		patch, err := command.Patch(r, now)
		if err != nil {
			return first, fmt.Errorf("write command: %w", err)
		}
		_, err = g.write.Resource(api.RolloutResource()).Namespace(g.namespace).
			Patch(ctx, g.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: commander}, "status")
		if err == nil {
			fmt.Fprintln(g.errors, command.Foretell(r, now))
		}
		if !apierrors.IsConflict(err) {
			return first, err
		}
	}
}

// answer waits until an executor has taken the command away, and tells what came of it.
func (g *commanding) answer(ctx context.Context, given api.Command) error {
	err := g.until(ctx, g.timeout, "", func(r *api.Rollout) (string, bool, error) { return command.Result(r, given, g.command) })
	switch {
	case errors.Is(err, command.ErrRefused):
		return outcome{codeRefused, err.Error()}
	case errors.Is(err, errLate):
		return outcome{codeUndecided, fmt.Sprintf("undecided: the command %s for Rollout %s/%s is written, and no executor has taken it within %s. It counts when one does. Find out why with: %s check",
			given.Action, g.namespace, g.name, g.timeout, g.command)}
	}
	return err
}

// errLate is what ends a wait that took too long.
var errLate = errors.New("not in time")

// until shows what look says of the Rollout, until that is done. late says what was not reached in time.
func (g *commanding) until(ctx context.Context, timeout time.Duration, late string, look func(*api.Rollout) (string, bool, error)) error {
	bound, cancel := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		bound, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	last, finished := "", false
	err := g.read.Until(bound, g.namespace, g.name, func(now *api.Rollout) (bool, error) {
		text, done, err := look(now)
		switch {
		case err != nil:
		case done:
			finished = true
			fmt.Fprintln(g.out, text)
		case text != last:
			fmt.Fprintln(g.errors, text)
		}
		last = text
		return done, err
	})
	switch {
	case err != nil:
		return g.notFound(ctx, g.namespace, g.name, err)
	case finished:
		return nil
	case ctx.Err() != nil:
		return context.Canceled
	}
	return fmt.Errorf("%s after %s: %w. It goes on; last seen: %s", late, timeout, errLate, last)
}
