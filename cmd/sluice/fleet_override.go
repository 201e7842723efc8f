package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"sluice.dev/sluice/pkg/api"
)

func (c *cli) fleetOverrideCommand() *cobra.Command {
	var o commandOptions
	override := &cobra.Command{
		Use: "override ROLLOUT", Short: "In a cluster: let its release go on without permits, such as while the hub is lost",
		Long: "Let the release of a Rollout go on to its end without permits of its fleet. This command talks to the cluster of the Rollout, and not to the\n" +
			"hub: choose it with --context. It counts for the release under way only. The pauses and the metrics of the Rollout count. A version that the\n" +
			"fleet has withdrawn does not go on. The hub shows who did it and why. A later abort or withdrawal at the hub takes the version back.\n" +
			"It needs the verb override on the Rollout.\n\n" + commandCodes,
		Example: fmt.Sprintf("  %[1]s fleet override checkout -n shop --context eu2 --reason \"the hub is lost, CHG0099\"", c.command),
		Args:    cobra.RangeArgs(1, 2), ValidArgsFunction: c.completeRollouts,
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(o.reason) == "" {
				return errors.New("an override needs a reason, which the hub shows; give one with --reason")
			}
			return c.commandRollout(cmd.Context(), args, api.CommandOverride, o)
		},
	}
	override.Flags().StringVar(&o.reason, "reason", "", "why, for the record; required")
	override.Flags().DurationVar(&o.timeout, "timeout", answerTimeout, "how long to wait for an executor; 0 has no limit")
	return override
}
