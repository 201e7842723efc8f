package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice.dev/sluice/cmd/internal/component"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
)

// Exit codes of the commands that send a decision. 0 means accepted, and 1 means that the decision was not sent.
const (
	codeRefused   = 3
	codeUndecided = 4
)

const exitCodes = `Exit codes:
  0  the decision was accepted (with --wait=false: it is stored)
  1  the decision was not sent: the flags are wrong, or nothing answered
  3  it was refused; the message says why and what to do
  4  it was sent, and no answer came in time; sending it again with the same --source and --id is safe`

// sendOptions select how a decision is sent.
type sendOptions struct {
	nats                                *component.NATSFlags
	cluster, principal                  string
	server, caFile                      string
	token, tokenFile, account, audience string
	wait                                bool
	timeout                             time.Duration
	output                              string
}

func (o *sendOptions) addFlags(flags *pflag.FlagSet, c *cli) {
	flags.BoolVar(&o.wait, "wait", true, "wait for the decision; without it the exit code only says whether the event is stored")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long to try to send, and to wait")
	flags.StringVarP(&o.output, "output", "o", "text", "how to print the event that tells the decision: text, json or yaml")
	flags.StringVar(&o.cluster, "cluster", "default", "name of the cluster on NATS")
	flags.StringVar(&o.principal, "principal", "", "as whom to decide on NATS, which NATS must allow this user (default: the name of the NATS user)")
	flags.StringVar(&o.server, "server", os.Getenv("SLUICE_SERVER"), "send to the approval receiver of a watcher, https://HOST:PORT, instead of to NATS ($SLUICE_SERVER)")
	flags.StringVar(&o.caFile, "server-ca", "", "file with the certificates that sign the receiver's (default: the system's)")
	flags.StringVar(&o.token, "token", "", "Kubernetes token for the receiver; better use --token-file or $SLUICE_TOKEN, as others see command lines")
	flags.StringVar(&o.tokenFile, "token-file", "", "file with the Kubernetes token for the receiver")
	flags.StringVar(&o.account, "service-account", "", "ask the API server for a token of this service account of the namespace")
	flags.StringVar(&o.audience, "audience", component.Audience, "the audience of a token that --service-account requests")
	o.nats = component.AddNATSFlags(flags, &c.kube)
}

func (c *cli) eventCommand() *cobra.Command {
	event := asParent(&cobra.Command{
		Use: "event", Short: "Send decisions about releases as CloudEvents, for pipelines",
		Long: "Send decisions about releases as CloudEvents: over NATS, or to the approval receiver of a watcher (--server). The exit code is the\n" +
			"decision. To approve by hand, with your rights in the cluster, use: " + c.command + " approve\n\n" + exitCodes,
	})
	event.AddCommand(c.eventSendCommand(), c.eventDecideCommand(api.DecisionApprove), c.eventDecideCommand(api.DecisionReject), c.eventFleetCommand())
	return event
}

func (c *cli) eventSendCommand() *cobra.Command {
	var o sendOptions
	var file string
	send := &cobra.Command{
		Use: "send -f FILE", Short: "Send a decision that stands in a file",
		Long: "Send one CloudEvent of type " + event.TypeApproval + " or " + event.TypeFleetRelease + " from a file, as JSON or YAML, and wait for the decision. An event without\n" +
			"id or time gets them here.\n\n" + exitCodes,
		Example: fmt.Sprintf("  %[1]s event send -f approval.yaml\n  echo \"$EVENT\" | %[1]s event send -f - --server https://sluice.example.com --token-file token", c.command),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return errors.New("name the file with the event: -f FILE, or -f - for the standard input")
			}
			e, err := readEvent(file, cmd.InOrStdin())
			if err != nil {
				return err
			}
			return c.sendEvent(cmd.Context(), e, o)
		},
	}
	send.Flags().StringVarP(&file, "filename", "f", "", "file with the event, - for the standard input")
	o.addFlags(send.Flags(), c)
	return send
}

func (c *cli) eventDecideCommand(decision api.Decision) *cobra.Command {
	var o sendOptions
	a := event.Approval{Decision: decision}
	var step int32
	var source, id string
	what := map[api.Decision]string{
		api.DecisionApprove: "Approve the step that a release pauses at", api.DecisionReject: "Reject the step that a release pauses at",
	}[decision]
	decide := &cobra.Command{
		Use: string(decision) + " ROLLOUT", Short: what,
		Long: what + ", by an event. At least one of --rollout-id, --image and --revision says which release is meant, and each\n" +
			"that is given must match; with --step the release must be paused at that step.\n\n" + exitCodes,
		Example: fmt.Sprintf("  %[1]s event %[2]s checkout -n shop --image registry.example.com/checkout:v2 --comment \"e2e green\"\n"+
			"  %[1]s event %[2]s checkout -n shop --rollout-id v1.4.2 --step 2 --server https://sluice.example.com --token-file token", c.command, decision),
		Args: cobra.RangeArgs(1, 2), ValidArgsFunction: c.completeRollouts,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := rolloutName(args)
			if err != nil {
				return err
			}
			namespace, err := c.workingNamespace()
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("step") {
				a.Step = &step
			}
			if err := refuseEmpty(cmd.Flags(), "rollout-id", "image", "revision", "id", "source"); err != nil {
				return err
			}
			e, err := newApproval(event.Rollout{Namespace: namespace, Name: name}, a, source, id)
			if err != nil {
				return err
			}
			return c.sendEvent(cmd.Context(), e, o)
		},
	}
	flags := decide.Flags()
	flags.StringVar(&a.RolloutID, "rollout-id", "", "the release with this rollout-id")
	flags.StringVar(&a.Image, "image", "", "the release that runs this image, exactly as the pod template names it, or only its digest: sha256:...")
	flags.StringVar(&a.Revision, "revision", "", "the release of this revision, as status.canaryStatus.canaryRevision has it")
	flags.Int32Var(&step, "step", 0, "only this step, counted from 1 (default: the one that is paused)")
	flags.StringVar(&a.Comment, "comment", "", "a comment that is recorded with the decision")
	flags.StringVar(&source, "source", defaultSource(), "where the decision comes from, such as /ci/acme/checkout/runs/4711")
	flags.StringVar(&id, "id", "", "id of the decision, unique within its source (default: a random one); the same one again is the same decision")
	o.addFlags(flags, c)
	return decide
}

// refuseEmpty returns an error for a flag with an empty value. An unset shell variable would make the event apply to more than its sender intended.
func refuseEmpty(flags *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		if f := flags.Lookup(name); f.Changed && f.Value.String() == "" {
			return fmt.Errorf("--%s is empty: leave it out or give it a value", name)
		}
	}
	return nil
}

// sendEvent sends a decision and returns its result as the outcome of the command.
func (c *cli) sendEvent(ctx context.Context, e event.Event, o sendOptions) error {
	if o.output != "text" && o.output != "json" && o.output != "yaml" {
		return fmt.Errorf("--output %q: use text, json or yaml", o.output)
	}
	if o.timeout <= 0 {
		return errors.New("--timeout must be longer than nothing")
	}
	request, err := event.ParseRequest(e)
	if err != nil {
		return fmt.Errorf("the event is no approval: %w", err)
	}
	about := request.About
	about.Cluster = o.cluster
	s, err := c.newSender(ctx, o, about)
	if err != nil {
		return err
	}
	bound, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	decided, err := s.sendDecision(bound, e, o.wait)
	if ctx.Err() != nil {
		return context.Canceled
	}
	switch {
	case errors.Is(err, errUndecided):
		return outcome{codeUndecided, fmt.Sprintf("undecided: the decision about %s was sent, and no answer came within %s; it may still count. "+
			"Find out why with: %s check. To ask again, send it again with --source %q --id %q.", objectText(about), o.timeout, c.command, e.Source(), e.ID())}
	case err != nil:
		return err
	case decided == nil:
		return c.printEvent(e, fmt.Sprintf("sent: source %s, id %s", e.Source(), e.ID()), o.output)
	}
	return c.printDecision(*decided, o.output)
}

// objectText names a Rollout or a FleetRollout for people.
func objectText(about event.Rollout) string {
	kind := "Rollout"
	if about.Fleet {
		kind = "FleetRollout"
	}
	return kind + " " + about.Namespace + "/" + about.Name
}

// printDecision prints a decision.
func (c *cli) printDecision(decided event.Event, output string) error {
	d, err := event.ParseDecided(decided)
	if err != nil {
		return err
	}
	if !d.Accepted {
		if output != "text" {
			if err := c.printEvent(decided, "", output); err != nil {
				return err
			}
		}
		return refusalError(d.Refusal, d.Message)
	}
	return c.printEvent(decided, "accepted: "+d.Message, output)
}

func refusalError(why api.Refusal, message string) error {
	return outcome{codeRefused, fmt.Sprintf("refused: %s: %s", why, message)}
}

// printEvent writes an event to the standard output, or the text instead of it.
func (c *cli) printEvent(e event.Event, text, output string) error {
	if output != "text" {
		var err error
		if text, err = formatEvent(e, output); err != nil {
			return err
		}
	}
	_, err := io.WriteString(c.out, text+"\n")
	return err
}

// outcome is an error with a complete message and its own exit code.
type outcome struct {
	code int
	text string
}

func (o outcome) Error() string { return o.text }

// As makes the caller print the outcome without additions.
func (o outcome) As(target any) bool {
	whole, ok := target.(*said)
	if ok {
		*whole = said(o.text)
	}
	return ok
}

// codeOf returns the exit code of an error.
func codeOf(err error) int {
	var o outcome
	var slow late
	switch {
	case errors.As(err, &o):
		return o.code
	case errors.As(err, &slow):
		return codeUndecided
	}
	return 1
}

func defaultSource() string { return cmp.Or(os.Getenv("SLUICE_SOURCE"), "/sluice/cli") }
