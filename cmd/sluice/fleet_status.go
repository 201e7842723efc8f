package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice.dev/sluice/cmd/sluice/internal/fleetview"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
)

// codeSuperseded is the exit code for a release in whose place another version came.
const codeSuperseded = 5

const fleetStatusCodes = `Exit codes:
  0  the release has succeeded, or its clusters up to --until-wave have completed; deferred clusters are listed
  1  that cannot be told: no such FleetRollout, or no version to wait for
  2  the version was withdrawn, or its release was aborted
  3  the release stands still until a person acts; the message says how. Lost clusters have a minute to come back
  4  it has not ended within --timeout
  5  another version has taken its place`

type fleetStatusOptions struct {
	version, untilWave string
	images             []string
	timeout            time.Duration
}

func (c *cli) fleetStatusCommand() *cobra.Command {
	var o fleetStatusOptions
	status := &cobra.Command{
		Use: "status FLEETROLLOUT", Short: "Wait until a release over many clusters has ended, and say how",
		Long: "Wait until the release of a version has ended in all waves, and say how, on standard output and with the exit code. Progress goes to\n" +
			"standard error. Without --version and --image the command waits for the version that the FleetRollout names now. With them it also waits\n" +
			"until the FleetRollout names that version and the hub has begun its release. With --until-wave the wait ends when the\n" +
			"clusters of that wave have completed and soaked, before the pause after the wave.\n\n" + fleetStatusCodes,
		Example: fmt.Sprintf("  %[1]s fleet status checkout -n shop --version v1.42.0 --timeout 4h\n  %[1]s fleet status checkout -n shop --until-wave canary --timeout 1h\n"+
			"  %[1]s fleet approve checkout -n shop --wave canary --reason \"e2e green\"", c.command),
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeFleetRollouts,
		RunE: func(cmd *cobra.Command, args []string) error { return c.fleetStatus(cmd.Context(), args[0], o) },
	}
	status.Flags().StringVar(&o.version, "version", "", "wait for the release of this version")
	status.Flags().StringArrayVar(&o.images, "image", nil, "wait for the release of these images, as CONTAINER=IMAGE; may be given several times")
	status.Flags().StringVar(&o.untilWave, "until-wave", "", "wait no longer than until the clusters of this wave have completed")
	status.Flags().DurationVar(&o.timeout, "timeout", 0, "how long to wait; 0 has no limit")
	_ = status.RegisterFlagCompletionFunc("until-wave", c.completeWaves)
	return status
}

func (c *cli) fleetStatus(ctx context.Context, arg string, o fleetStatusOptions) error {
	release, err := parseRelease(o.version, o.images)
	if err != nil {
		return err
	}
	h, r, err := c.namedFleetRollout(ctx, arg)
	if err != nil {
		return err
	}
	if release.Key() == "" && r.Spec.Release != nil {
		release = *r.Spec.Release
	}
	if release.Key() == "" {
		return fmt.Errorf("%s names no version, so there is no release to wait for; name it with --version, or begin it with: %s",
			fullName(r), c.typedStyle().FleetCommand("release", r, "--version", "VERSION"))
	}
	if err := c.checkWave(ctx, h, r, o.untilWave); err != nil {
		return err
	}
	return c.awaitRelease(ctx, h, r, fleet.Wanted{Release: release, UntilWave: o.untilWave}, o.timeout)
}

// checkWave returns an error for a wave that neither the present release nor the next one has. A plan that the user may not read may have it.
func (c *cli) checkWave(ctx context.Context, h hub, r *api.FleetRollout, wave string) error {
	if wave == "" {
		return nil
	}
	next, err := h.readStrategy(ctx, r)
	if err != nil {
		return nil // the release itself will show it
	}
	var names []string
	for _, strategy := range []*api.FleetStrategy{r.Status.Plan, next} {
		for i := 0; strategy != nil && i < len(strategy.Waves); i++ {
			names = append(names, strategy.Waves[i].Name)
		}
	}
	if slices.Contains(names, wave) {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("--until-wave %q: %s has no such wave; its waves are %s", wave, fullName(r), strings.Join(slices.Compact(names), ", "))
}

// awaitRelease waits until a release has ended or needs a person.
func (c *cli) awaitRelease(ctx context.Context, h hub, r *api.FleetRollout, wanted fleet.Wanted, timeout time.Duration) error {
	kind, last := fleet.NotBegun, r
	what := fmt.Sprintf("the release of %s in %s has not ended", fleet.ReleaseText(&wanted.Release), fullName(r))
	err := c.showFleetProgress(ctx, h, r, timeout, what, func(now *api.FleetRollout) (text string, done bool, err error) {
		last = now
		kind, text = fleet.StandingOf(now, &wanted, time.Now())
		return text, kind > fleet.UnderWay, nil
	})
	if err != nil {
		return err
	}
	switch kind {
	case fleet.Succeeded:
		c.listLacking(ctx, h, last)
		return nil
	case fleet.Failed:
		return outcome{codeFailed, ""}
	case fleet.NeedsPerson:
		for _, next := range c.typedStyle().NextCommands(last) {
			fmt.Fprintf(c.errors, "%s, type: %s\n", next.Does, next.Command)
		}
		return outcome{codeRefused, ""}
	case fleet.Superseded:
		return outcome{codeSuperseded, ""}
	}
	return errors.New("the wait has ended without a result")
}

// listLacking prints the clusters that do not have the version although the release has succeeded.
func (c *cli) listLacking(ctx context.Context, h hub, r *api.FleetRollout) {
	if r.Status.Phase != api.FleetPhaseSucceeded {
		return
	}
	v := h.readSettledView(ctx, r)
	if v.Rollout.Status.Began != r.Status.Began {
		return // another release has begun meanwhile
	}
	for _, cluster := range fleetview.ReadClusters(v) {
		if cluster.Lacks() {
			fmt.Fprintln(c.out, cluster.Lacking())
		}
	}
}

// parseRelease returns the release that flags name.
func parseRelease(version string, images []string) (api.FleetRelease, error) {
	named, err := fleet.ParseImages(images)
	if err != nil {
		return api.FleetRelease{}, fmt.Errorf("--image %w", err)
	}
	return api.FleetRelease{Version: version, Images: named}, nil
}
