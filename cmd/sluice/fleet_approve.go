package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"sluice.dev/sluice/cmd/sluice/internal/fleetview"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
)

func (c *cli) fleetApproveCommand() *cobra.Command {
	var wave string
	approve := c.verbCommand(fleetVerb{
		use: "approve FLEETROLLOUT", short: "Let a release that waits for approval go on",
		long: "Approve the pause that a release waits in, or take back its rejection. An approval counts for one pause. With --wave it counts only for\n" +
			"a pause of this wave, so that a pipeline can give it twice.",
		examples: []string{"approve checkout -n shop", "approve checkout -n shop --wave canary --reason \"e2e green\""},
		order: func(context.Context, []string) (fleetOrder, error) {
			return fleetOrder{action: api.FleetCommandApprove, foretells: "the release is approved", complete: func(r *api.FleetRollout, command *api.FleetCommand) (string, error) {
				command.PauseSeq = r.Status.PauseSeq
				return c.checkApproval(r, wave)
			}}, nil
		},
	})
	approve.Flags().StringVar(&wave, "wave", "", "only if this wave waits, by its name or number")
	_ = approve.RegisterFlagCompletionFunc("wave", c.completeWaves)
	return approve
}

// checkApproval returns an error if there is nothing to approve. done is a sentence if it is approved already.
func (c *cli) checkApproval(r *api.FleetRollout, wave string) (done string, err error) {
	s := r.Status
	if s.Verb != api.FleetVerbRelease {
		return "", fmt.Errorf("the release of %s goes back, so there is nothing to approve: %s", fullName(r), s.Message)
	}
	if wave != "" {
		number, err := waveNumber(r, wave)
		switch {
		case err != nil:
			return "", err
		case int(number) > len(s.Waves):
			return "", fmt.Errorf("wave %s of %s has not begun, so there is nothing to approve: %s", wave, fullName(r), s.Message)
		case fleetview.WaveEnded(s.Waves[number-1].Stage):
			return fmt.Sprintf("wave %s of %s has passed already", fleetview.WaveName(r, number), fullName(r)), nil
		}
	}
	last := lastDecision(s)
	if last != nil && last.Decision == api.DecisionReject {
		return "", nil
	}
	stage := api.FleetWaveStage("")
	if s.Wave > 0 && int(s.Wave) <= len(s.Waves) {
		stage = s.Waves[s.Wave-1].Stage
	}
	switch {
	case stage != api.FleetWaveHoldPause && stage != api.FleetWavePause:
		return "", fmt.Errorf("no wave of %s waits for an approval: %s", fullName(r), s.Message)
	case fleet.TimedPause(s):
		return "", fmt.Errorf("the pause of wave %s ends by itself, and an approval does not shorten it: %s. To go on now: %s",
			fleetview.WaveName(r, s.Wave), s.Message, c.typedStyle().FleetCommand("promote", r, "--reason", "WHY"))
	case last != nil && last.PauseSeq == s.PauseSeq && last.Decision == api.DecisionApprove:
		return fmt.Sprintf("wave %s of %s is approved already by %s", fleetview.WaveName(r, last.Wave), fullName(r), last.Actor), nil
	}
	return "", nil
}

// lastDecision returns the last decision about the present release, nil without one.
func lastDecision(s api.FleetRolloutStatus) *api.FleetApproval {
	if n := len(s.Approvals); n > 0 && s.Approvals[n-1].Epoch >= s.Began {
		return &s.Approvals[n-1]
	}
	return nil
}

func (c *cli) fleetRejectCommand() *cobra.Command {
	return c.verbCommand(fleetVerb{
		use: "reject FLEETROLLOUT", short: "Reject a release: it holds, or goes back if its plan says so",
		long: "Reject the release that is under way, at a pause or between pauses. With onFailure.rejection Pause, which is the default, all clusters\n" +
			"hold at their steps until a user rolls back, aborts or approves. With Withdraw, the version is taken back everywhere.",
		examples: []string{"reject checkout -n shop --reason \"orders fail in eu1\""},
		order: func(context.Context, []string) (fleetOrder, error) {
			return fleetOrder{action: api.FleetCommandReject, foretells: "the release goes no further", complete: func(r *api.FleetRollout, command *api.FleetCommand) (string, error) {
				command.PauseSeq = r.Status.PauseSeq
				if last := lastDecision(r.Status); last != nil && last.Decision == api.DecisionReject {
					return fmt.Sprintf("the release of %s is rejected already by %s: %s", fullName(r), last.Actor, r.Status.Message), nil
				}
				if r.Status.Verb != api.FleetVerbRelease {
					return "", fmt.Errorf("the release of %s goes back, so there is nothing to reject: %s", fullName(r), r.Status.Message)
				}
				return "", nil
			}}, nil
		},
	})
}
