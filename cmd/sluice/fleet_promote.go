package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"sluice.dev/sluice/cmd/sluice/internal/fleetview"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
)

func (c *cli) fleetPromoteCommand() *cobra.Command {
	var through string
	var skipSoak bool
	var skipAnalyses []string
	promote := c.verbCommand(fleetVerb{
		use: "promote FLEETROLLOUT --reason WHY", short: "Pass over the pauses of a release, and if you say so over its soaks and analyses",
		long: "Pass over the pauses of the wave under way, or of all waves up to --through. With --skip-soak, also pass over their soaks.\n" +
			"With --skip-analysis, the clusters of these waves do not measure the metrics of that AnalysisTemplate or ClusterAnalysisTemplate any more.\n" +
			"Failures, budgets and the concurrency of each wave still count.",
		examples: []string{"promote checkout -n shop --reason \"hotfix for CVE-2026-1\"", "promote checkout -n shop --through everyone --skip-soak --reason \"hotfix\""},
		order: func(context.Context, []string) (fleetOrder, error) {
			return fleetOrder{action: api.FleetCommandPromote, foretells: "the release passes over its pauses", complete: func(r *api.FleetRollout, command *api.FleetCommand) (string, error) {
				if r.Status.Verb != api.FleetVerbRelease {
					return "", fmt.Errorf("the release of %s goes back, so there is nothing to promote: %s", fullName(r), r.Status.Message)
				}
				command.SkipSoak, command.SkipAnalyses = skipSoak, skipAnalyses
				if through == "" {
					return "", nil
				}
				wave, err := waveNumber(r, through)
				if err == nil && wave < r.Status.Wave {
					err = fmt.Errorf("wave %s of %s has passed; the release is in wave %d (%s)", through, fullName(r), r.Status.Wave, fleetview.WaveName(r, r.Status.Wave))
				}
				command.Through = wave
				return "", err
			}}, nil
		},
	})
	promote.Flags().StringVar(&through, "through", "", "the last wave whose pauses to pass over, by its name or number (default: the wave under way)")
	promote.Flags().BoolVar(&skipSoak, "skip-soak", false, "also pass over the soaks of those waves")
	promote.Flags().StringArrayVar(&skipAnalyses, "skip-analysis", nil, "pass over the metrics of this template in the clusters of those waves; may be given several times")
	promote.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flag("reason").Value.String() == "" {
			return errors.New("say why with --reason; it is recorded")
		}
		for _, name := range skipAnalyses {
			if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
				return fmt.Errorf("--skip-analysis %q is no name of a template: %s", name, wrong[0])
			}
		}
		return nil
	}
	_ = promote.RegisterFlagCompletionFunc("through", c.completeWaves)
	return promote
}

// waveNumber returns the number of a wave of the present release by its name, or by its number.
func waveNumber(r *api.FleetRollout, wave string) (int32, error) {
	if r.Status.Plan == nil {
		return 0, fmt.Errorf("%s has no release, so it has no wave %s", fullName(r), wave)
	}
	var names []string
	for i, w := range r.Status.Plan.Waves {
		if w.Name == wave {
			return int32(i + 1), nil
		}
		names = append(names, w.Name)
	}
	if n, err := strconv.Atoi(wave); err == nil && n > 0 && n <= len(names) {
		return int32(n), nil
	}
	return 0, fmt.Errorf("%q is no wave of the release of %s; its waves are %s", wave, fullName(r), strings.Join(names, ", "))
}

func (c *cli) fleetUnblockCommand() *cobra.Command {
	return c.verbCommand(fleetVerb{
		use: "unblock FLEETROLLOUT VERSION", short: "Let clusters get a version again that was withdrawn",
		long: "Allow a version that was withdrawn. If spec.release still names it, its release begins again with the first wave. The version is written as\n" +
			"in status.blocked, with or without version/ before it.",
		examples: []string{"unblock checkout v1.42.0 -n shop --reason \"it was the database\""},
		args:     cobra.ExactArgs(2), complete: c.completeBlocked,
		order: func(_ context.Context, args []string) (fleetOrder, error) {
			return fleetOrder{action: api.FleetCommandUnblock, foretells: "clusters may get " + args[1] + " again; unless they set the images themselves, deliver it again to those that have gone back", complete: func(r *api.FleetRollout, command *api.FleetCommand) (done string, err error) {
				command.Version, done, err = blockedKey(r, args[1])
				return done, err
			}}, nil
		},
	})
}

// blockedKey returns the key of a blocked version. done is a sentence if it is not blocked any more.
func blockedKey(r *api.FleetRollout, version string) (key, done string, err error) {
	var blocked []string
	unblocked := false
	for _, b := range r.Status.Blocked {
		is := b.Version == version || fleet.KeyText(b.Version) == version
		switch {
		case is && !b.Unblocked:
			return b.Version, "", nil
		case !b.Unblocked:
			blocked = append(blocked, fleet.KeyText(b.Version))
		}
		unblocked = unblocked || is
	}
	switch {
	case unblocked:
		return "", fmt.Sprintf("%s of %s is not blocked any more", version, fullName(r)), nil
	case len(blocked) == 0:
		return "", "", fmt.Errorf("%s has no blocked version", fullName(r))
	}
	return "", "", fmt.Errorf("%q is no blocked version of %s; blocked are %s", version, fullName(r), strings.Join(blocked, ", "))
}
