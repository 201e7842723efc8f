package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/fleet"
	"sluice.dev/sluice/pkg/receiver/client"
)

func (c *cli) eventFleetCommand() *cobra.Command {
	parent := asParent(&cobra.Command{
		Use: "fleet", Short: "Release over many clusters by events, for pipelines without a kubeconfig",
		Long: "Name the version of a FleetRollout, decide about its waves, and wait for its end, by events to the hub of the fleet: over NATS, or to the\n" +
			"approval receiver of a watcher (--server). An event counts once, and a decision counts for one wave of one release.\n\n" + exitCodes,
	})
	parent.AddCommand(c.eventFleetReleaseCommand(), c.eventFleetDecideCommand(api.DecisionApprove), c.eventFleetDecideCommand(api.DecisionReject), c.eventFleetStatusCommand())
	return parent
}

// fleetEvent is what the commands about a FleetRollout have in common.
type fleetEvent struct {
	sendOptions
	uid, source, id, comment string
	epoch                    int64
}

func (o *fleetEvent) addFlags(flags *pflag.FlagSet, c *cli) {
	flags.StringVar(&o.uid, "uid", "", "the metadata.uid of the FleetRollout, as the answer to the release has it")
	flags.Int64Var(&o.epoch, "epoch", 0, "the number of the release, as the answer to the release has it")
	flags.StringVar(&o.comment, "comment", "", "a comment that is recorded with the event")
	flags.StringVar(&o.source, "source", defaultSource(), "where the event comes from, such as /ci/acme/checkout/runs/4711")
	flags.StringVar(&o.id, "id", "", "id of the event, unique within its source (default: a random one); the same one again is the same event")
	o.sendOptions.addFlags(flags, c)
}

// about returns the FleetRollout that a command names.
func (c *cli) fleetAbout(name string) (event.Rollout, error) {
	namespace, err := c.workingNamespace()
	return event.Rollout{Namespace: namespace, Name: name, Fleet: true}, err
}

func (c *cli) eventFleetReleaseCommand() *cobra.Command {
	var o fleetEvent
	var r event.FleetRelease
	var images []string
	release := &cobra.Command{
		Use: "release FLEETROLLOUT", Short: "Release a version over the clusters, wave by wave",
		Long: "Name the version of a FleetRollout by an event. The answer has the uid of the FleetRollout and the number of the release (-o json), to which\n" +
			"approvals are bound. With --epoch, the event counts only while the release with this epoch is the last one.\n\n" + exitCodes,
		Example: fmt.Sprintf("  %[1]s event fleet release checkout -n shop --version v2 --server https://sluice.example.com --token-file token", c.command),
		Args:    cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := refuseEmpty(cmd.Flags(), "version", "plan", "uid", "id", "source"); err != nil {
				return err
			}
			named, err := parseRelease(r.Version, images)
			if err != nil {
				return err
			}
			if named.Key() == "" {
				return errors.New("name the version: --version VERSION, or --image CONTAINER=IMAGE for each container")
			}
			r.Images, r.UID, r.Epoch, r.Comment = named.Images, o.uid, o.epoch, o.comment
			return c.sendFleetEvent(cmd.Context(), args[0], event.TypeFleetRelease, r, o)
		},
	}
	release.Flags().StringVar(&r.Version, "version", "", "the version that the workloads carry")
	release.Flags().StringArrayVar(&images, "image", nil, "the image of a container, as CONTAINER=IMAGE; may be given several times")
	release.Flags().StringVar(&r.Plan, "plan", "", "follow this FleetPlan from now on; needs the verb use on it")
	o.addFlags(release.Flags(), c)
	return release
}

func (c *cli) eventFleetDecideCommand(decision api.Decision) *cobra.Command {
	var o fleetEvent
	var wave, version string
	what := map[api.Decision]string{
		api.DecisionApprove: "Approve a wave that waits for it", api.DecisionReject: "Reject a release in the wave under way",
	}[decision]
	decide := &cobra.Command{
		Use: string(decision) + " FLEETROLLOUT", Short: what,
		Long: what + ", by an event. It is bound to the FleetRollout (--uid), the release (--epoch) and the wave (--wave), and counts for nothing\n" +
			"else. With --version, the command asks the approval receiver for the release of that version in the place of --uid and --epoch.\n\n" + exitCodes,
		Example: fmt.Sprintf("  %[1]s event fleet %[2]s checkout -n shop --version v2 --wave canary --server https://sluice.example.com --token-file token", c.command, decision),
		Args:    cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := refuseEmpty(cmd.Flags(), "version", "wave", "uid", "id", "source"); err != nil {
				return err
			}
			if version != "" {
				if err := c.findRelease(cmd.Context(), args[0], version, &o); err != nil {
					return err
				}
			}
			if o.uid == "" || o.epoch == 0 || wave == "" {
				return errors.New("name the wave (--wave) and the release: --uid and --epoch, or --version with --server")
			}
			return c.sendFleetEvent(cmd.Context(), args[0], event.TypeApproval, event.Approval{Decision: decision, UID: o.uid, Epoch: o.epoch, Wave: wave, Comment: o.comment}, o)
		},
	}
	decide.Flags().StringVar(&wave, "wave", "", "the name of the wave in the plan")
	decide.Flags().StringVar(&version, "version", "", "the present release must be the one of this version; needs --server")
	o.addFlags(decide.Flags(), c)
	return decide
}

func (c *cli) sendFleetEvent(ctx context.Context, name, kind string, data any, o fleetEvent) error {
	about, err := c.fleetAbout(name)
	if err != nil {
		return err
	}
	e, err := newRequest(about, kind, data, o.source, o.id)
	if err != nil {
		return err
	}
	return c.sendEvent(ctx, e, o.sendOptions)
}

// findRelease asks the receiver for the uid and the epoch of the present release. It returns an error if that release has another version.
func (c *cli) findRelease(ctx context.Context, name, version string, o *fleetEvent) error {
	if o.uid != "" || o.epoch != 0 {
		return errors.New("give --version, or --uid and --epoch")
	}
	about, err := c.fleetAbout(name)
	if err != nil {
		return err
	}
	receiver, err := c.fleetReceiver(o.sendOptions, about)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	told, err := receiver.ReadRelease(ctx, about.Namespace, name, fleet.Wanted{Release: api.FleetRelease{Version: version}})
	switch {
	case err != nil:
		return receiverProblem(err)
	case told.Version != version:
		return outcome{codeRefused, fmt.Sprintf("refused: WrongRelease: the present release of %s is the one of %s: %s", objectText(about), told.Version, told.Message)}
	}
	o.uid, o.epoch = told.UID, told.Epoch
	return nil
}

func (c *cli) fleetReceiver(o sendOptions, about event.Rollout) (*client.Client, error) {
	if o.server == "" {
		return nil, errors.New("name the approval receiver of the hub: --server https://HOST:PORT, or $SLUICE_SERVER")
	}
	return c.receiverClient(o, about)
}

// receiverProblem returns a refusal of the receiver as the outcome of a command.
func receiverProblem(err error) error {
	var refused *client.RefusedError
	if errors.As(err, &refused) {
		return refusalError(refused.Refusal, refused.Message)
	}
	return outcome{1, "error: the release cannot be read: " + err.Error()}
}

func (c *cli) eventFleetStatusCommand() *cobra.Command {
	var o fleetEvent
	var version, wave string
	var images []string
	status := &cobra.Command{
		Use: "status FLEETROLLOUT", Short: "Wait until a release over many clusters has ended, and say how",
		Long: "Ask the approval receiver of the hub for the end of a release, with a token and without a kubeconfig. --uid and --epoch from the answer to the\n" +
			"release name it; without them it is the release of --version or --image, or else the present one. With --until-wave the wait ends when the\n" +
			"clusters of that wave have completed and soaked, before the pause after the wave.\n\n" + fleetStatusCodes,
		Example: fmt.Sprintf("  %[1]s event fleet status checkout -n shop --version v2 --until-wave canary --server https://sluice.example.com --token-file token", c.command),
		Args:    cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := refuseEmpty(cmd.Flags(), "version", "until-wave", "uid"); err != nil {
				return err
			}
			release, err := parseRelease(version, images)
			if err != nil {
				return err
			}
			return c.eventFleetStatus(cmd.Context(), args[0], fleet.Wanted{Release: release, UntilWave: wave, UID: o.uid, Epoch: o.epoch}, o.sendOptions)
		},
	}
	flags := status.Flags()
	flags.StringVar(&version, "version", "", "wait for the release of this version")
	flags.StringArrayVar(&images, "image", nil, "wait for the release of these images, as CONTAINER=IMAGE; may be given several times")
	flags.StringVar(&wave, "until-wave", "", "wait no longer than until the clusters of this wave have completed")
	o.addFlags(flags, c)
	for _, name := range []string{"wait", "source", "id", "comment", "cluster", "principal"} { // they are for events
		_ = flags.MarkHidden(name)
	}
	return status
}

func (c *cli) eventFleetStatus(ctx context.Context, name string, wanted fleet.Wanted, o sendOptions) error {
	about, err := c.fleetAbout(name)
	if err != nil {
		return err
	}
	receiver, err := c.fleetReceiver(o, about)
	if err != nil {
		return err
	}
	bound, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	shown := ""
	told, err := receiver.AwaitRelease(bound, about.Namespace, name, wanted, func(now client.ReleaseAnswer) {
		if now.Message != shown {
			fmt.Fprintln(c.errors, now.Message)
			shown = now.Message
		}
	})
	switch {
	case ctx.Err() != nil:
		return context.Canceled
	case errors.Is(err, client.ErrUndecided):
		return late{what: "the release in " + objectText(about) + " has not ended", after: o.timeout, last: told.Message}
	case err != nil:
		return receiverProblem(err)
	}
	if err := c.printRelease(told, o.output); err != nil {
		return err
	}
	if told.ExitCode != 0 {
		return outcome{told.ExitCode, ""}
	}
	return nil
}

// printRelease writes how far a release is to the standard output.
func (c *cli) printRelease(told client.ReleaseAnswer, output string) error {
	var text []byte
	var err error
	switch output {
	case "json":
		text, err = json.MarshalIndent(told, "", "  ")
	case "yaml":
		text, err = yaml.Marshal(told)
	default:
		lines := []string{told.Message}
		for _, cluster := range told.Lacking {
			lines = append(lines, cluster.Lacking())
		}
		text = []byte(strings.Join(lines, "\n"))
	}
	if err != nil {
		return fmt.Errorf("print the release: %w", err)
	}
	_, err = io.WriteString(c.out, strings.TrimSuffix(string(text), "\n")+"\n")
	return err
}
