package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
)

// fleetVerb is a command line that gives one command.
type fleetVerb struct {
	use, short, long string
	examples         []string // without the name of the program and the word fleet
	args             cobra.PositionalArgs
	complete         func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)
	order            func(ctx context.Context, args []string) (fleetOrder, error)
}

func (c *cli) fleetVerbCommands() []*cobra.Command {
	return []*cobra.Command{
		c.fleetApproveCommand(), c.fleetRejectCommand(), c.fleetPauseCommand(), c.fleetResumeCommand(), c.fleetAbortCommand(), c.fleetRollbackCommand(),
		c.fleetRetryCommand(), c.fleetSkipCommand(), c.fleetPromoteCommand(), c.fleetUnblockCommand(),
	}
}

// verbCommand returns the command line of a verb, with the flags that all have.
func (c *cli) verbCommand(v fleetVerb) *cobra.Command {
	var reason string
	var timeout time.Duration
	var examples []string
	for _, example := range v.examples {
		examples = append(examples, "  "+c.command+" fleet "+example)
	}
	if v.args == nil {
		v.args = cobra.ExactArgs(1)
	}
	if v.complete == nil {
		v.complete = c.completeFleetRollouts
	}
	command := &cobra.Command{
		Use: v.use, Short: v.short, Long: v.long + "\nIt is recorded who did it.\n\n" + fleetCommandCodes, Example: strings.Join(examples, "\n"),
		Args: v.args, ValidArgsFunction: v.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := v.order(cmd.Context(), args)
			if err != nil {
				return err
			}
			o.reason, o.timeout = reason, timeout
			return c.giveFleetCommand(cmd.Context(), args[0], o)
		},
	}
	command.Flags().StringVar(&reason, "reason", "", "why, for the record (also: --comment)")
	command.Flags().DurationVar(&timeout, "timeout", answerTimeout, "how long to wait for an executor of the hub; 0 has no limit")
	command.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "comment" {
			name = "reason"
		}
		return pflag.NormalizedName(name)
	})
	return command
}

// givesAlways returns an order without fields of its own. done returns a sentence if there is nothing to do.
func givesAlways(action api.FleetCommandAction, foretells string, check func(r *api.FleetRollout) (done string, err error)) func(context.Context, []string) (fleetOrder, error) {
	return func(context.Context, []string) (fleetOrder, error) {
		return fleetOrder{action: action, foretells: foretells, complete: func(r *api.FleetRollout, _ *api.FleetCommand) (string, error) { return check(r) }}, nil
	}
}

func fullName(r *api.FleetRollout) string { return "FleetRollout " + r.Namespace + "/" + r.Name }

// notGoingBack returns an error if the version of the release is withdrawn.
func (c *cli) notGoingBack(r *api.FleetRollout, verb string) error {
	if r.Status.Verb != api.FleetVerbWithdraw {
		return nil
	}
	return fmt.Errorf("%s is withdrawn from the clusters of %s, so there is nothing to %s; to allow it again: %s",
		fleet.ReleaseText(r.Status.Release), fullName(r), verb, c.typedStyle().FleetCommand("unblock", r, fleet.KeyText(r.Status.Release.Key())))
}

// notAborted returns an error if the release is aborted.
func (c *cli) notAborted(r *api.FleetRollout, verb string) error {
	if r.Status.Verb != api.FleetVerbAbort {
		return nil
	}
	return fmt.Errorf("the release of %s is aborted, so there is nothing to %s; to begin it again: %s", fullName(r), verb, c.typedStyle().FleetCommand("resume", r))
}

func (c *cli) fleetPauseCommand() *cobra.Command {
	return c.verbCommand(fleetVerb{
		use: "pause FLEETROLLOUT", short: "Hold all clusters of a release at their steps",
		long: "Hold a release: no cluster begins, and those under way hold at their steps. Nothing is taken back. Aborts, rollbacks and what metrics\n" +
			"ask for are still carried out.",
		examples: []string{"pause checkout -n shop --reason \"an incident elsewhere\""},
		order: givesAlways(api.FleetCommandPause, "no cluster begins, and those under way hold at their steps", func(r *api.FleetRollout) (string, error) {
			if r.Status.Paused {
				return fullName(r) + " is paused already", nil
			}
			return "", cmp.Or(c.notGoingBack(r, "pause"), c.notAborted(r, "pause"))
		}),
	})
}

func (c *cli) fleetResumeCommand() *cobra.Command {
	return c.verbCommand(fleetVerb{
		use: "resume FLEETROLLOUT", short: "Let a release that is paused or aborted, or whose hub was restored, go on",
		long: "Let a release go on that a user has paused, or whose hub was restored. It approves nothing. A release that was aborted begins again with\n" +
			"its first wave. The time in which a version must arrive begins again too. A pause in spec.paused ends only there.",
		examples: []string{"resume checkout -n shop"},
		order:    givesAlways(api.FleetCommandResume, "the release goes on", c.checkResume),
	})
}

func (c *cli) checkResume(r *api.FleetRollout) (done string, err error) {
	s := r.Status
	helps := s.Paused || s.Restored || s.Verb == api.FleetVerbAbort
	switch {
	case helps:
		return "", nil
	case s.Verb == api.FleetVerbWithdraw:
		return "", c.notGoingBack(r, "resume")
	case r.Spec.Paused:
		return "", fmt.Errorf(`spec.paused of %s is true, which no command changes; type: kubectl patch fleetrollout %s -n %s --type=merge -p '{"spec":{"paused":false}}'`, fullName(r), r.Name, r.Namespace)
	case s.Phase == api.FleetPhaseStalled, s.Phase == api.FleetPhaseWaiting && s.Reason == "Delivery":
		return "", nil // the hub waits for the delivery from now on
	}
	return fmt.Sprintf("%s is not paused; it is %s: %s", fullName(r), s.Phase, s.Message), nil
}

func (c *cli) fleetAbortCommand() *cobra.Command {
	return c.verbCommand(fleetVerb{
		use: "abort FLEETROLLOUT", short: "Stop a release: clusters under way go back, completed ones keep the version",
		long: "Stop the release. Clusters that are under way go back, traffic first. Clusters that have completed keep the version, and the version is not\n" +
			"blocked. To take it back everywhere, use rollback.",
		examples: []string{"abort checkout -n shop --reason \"orders fail\""},
		order: givesAlways(api.FleetCommandAbort, "clusters under way go back, and no further one begins; those that have completed keep the version", func(r *api.FleetRollout) (string, error) {
			if r.Status.Verb == api.FleetVerbAbort {
				return fmt.Sprintf("the release of %s is aborted already: %s", fullName(r), r.Status.Message), nil
			}
			return "", c.notGoingBack(r, "abort")
		}),
	})
}

func (c *cli) fleetRollbackCommand() *cobra.Command {
	return c.verbCommand(fleetVerb{
		use: "rollback FLEETROLLOUT", short: "Withdraw the version: all clusters go back, and none gets it again",
		long: "Withdraw the version of the release. All clusters that run it or are under way to it go back to their version before. No cluster gets the\n" +
			"version again until a user unblocks it.",
		examples: []string{"rollback checkout -n shop --reason \"orders fail\""},
		order: givesAlways(api.FleetCommandRollback, "all clusters go back to their version before, and the version is blocked", func(r *api.FleetRollout) (string, error) {
			if r.Status.Verb == api.FleetVerbWithdraw {
				return fmt.Sprintf("the version of %s is withdrawn already: %s", fullName(r), r.Status.Message), nil
			}
			return "", nil
		}),
	})
}
