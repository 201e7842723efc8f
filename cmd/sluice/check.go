package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sluice.dev/sluice/cmd/internal/component"
	"sluice.dev/sluice/cmd/sluice/internal/rbac"
	"sluice.dev/sluice/deploy"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/preflight"
	"sluice.dev/sluice/pkg/queue"
)

// natsDeadline is the longest time that sluice check waits for NATS.
const natsDeadline = 15 * time.Second

type checkOptions struct {
	nats       component.NATS
	askNATS    bool
	production bool
	output     string
}

func (c *cli) checkCommand() *cobra.Command {
	var o checkOptions
	check := &cobra.Command{
		Use: "check", Short: "Check whether a cluster is fit for Sluice", Args: cobra.NoArgs,
		Long: "Look at the server's version, the CRDs, the admission policies, the rights of each service account, OpenKruise Rollouts on the\n" +
			"same CRDs, rollout-ids that let a change through without a step, and NATS. Each finding is ok, a warning or an error, with what to do about it. The exit code is 1 if there is an error.\n" +
			"With --production, also judge whether the programs and NATS in the cluster survive the loss of a pod and of a node, and whether NATS is protected.",
		Example: "  sluice check\n  sluice check --production\n  sluice check -o json | jq '.findings[] | select(.level != \"ok\")'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.askNATS = cmd.Flags().Changed("nats-url") || os.Getenv("NATS_URL") != ""
			return c.runCheck(cmd.Context(), o)
		},
	}
	o.nats.AddFlags(check.Flags())
	check.Flags().BoolVar(&o.production, "production", false, "also judge whether the installation in the cluster is fit for production")
	check.Flags().StringVarP(&o.output, "output", "o", "", "json or yaml")
	_ = check.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return check
}

func (c *cli) runCheck(ctx context.Context, o checkOptions) error {
	if o.output != "" && o.output != "json" && o.output != "yaml" {
		return fmt.Errorf("--output %q: use json or yaml", o.output)
	}
	config, err := c.kube.RESTConfig()
	if err != nil {
		return err
	}
	in, _ := preflight.FindInstallation(ctx, config) // without an answer, CheckCluster says so
	look, err := preflight.New(config, in)
	if err != nil {
		return err
	}
	grants, err := shippedGrants(in)
	if err != nil {
		return err
	}
	findings := look.CheckCluster(ctx)
	if len(findings) > 1 {
		findings = append(findings, look.CheckKnownExecutor(ctx)...)
		findings = append(findings, look.CheckStatusWriters(ctx)...)
		findings = append(findings, look.CheckRolloutIDs(ctx)...)
		findings = append(findings, look.CheckStableNeeds(ctx)...)
		findings = append(findings, look.CheckUncoveredCanaries(ctx)...)
		findings = append(findings, look.CheckFleetDelivery(ctx)...)
		findings = append(findings, look.CheckRBAC(ctx, grants)...)
		if o.production {
			findings = append(findings, look.CheckProduction(ctx)...)
		}
	}
	findings = append(findings, o.checkNATS(ctx))
	if o.output != "" {
		err = c.printValues(o.output, map[string]any{"findings": findings})
	} else {
		err = c.printFindings(findings)
	}
	if err != nil {
		return err
	}
	if n := len(preflight.Errors(findings)); n > 0 {
		return errors.New(countText(n, "thing") + " must be fixed before Sluice can work here")
	}
	return nil
}

func countText(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func shippedGrants(in api.Installation) ([]preflight.Grant, error) {
	roles, err := deploy.Manifests(in, "rbac")
	if err != nil {
		return nil, err
	}
	return rbac.ReadGrants(roles)
}

func (o checkOptions) checkNATS(ctx context.Context) preflight.Finding {
	f := preflight.Finding{Check: "nats", Level: preflight.LevelOK}
	if !o.askNATS {
		f.Message = "Not looked at. Name NATS with --nats-url or $NATS_URL; sluice run brings its own."
		return f
	}
	options, err := o.nats.QueueOptions("sluice-check", nil)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, natsDeadline)
		defer cancel()
		var server queue.ServerInfo
		if server, err = queue.ProbeServer(ctx, options); err == nil {
			f.Message = fmt.Sprintf("NATS %s answers, with JetStream; %s known, %s in the account.",
				server.Version, countText(server.Servers, "server"), countText(server.Streams, "stream"))
			return f
		}
	}
	text, remedy, _ := strings.Cut(err.Error(), "; ")
	f.Level, f.Message = preflight.LevelError, toSentence(text)
	if remedy != "" {
		f.Remedy = toSentence(remedy)
	}
	return f
}

func toSentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

func (c *cli) printFindings(findings []preflight.Finding) error {
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	for _, f := range findings {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Level, f.Check, f.Message)
		if f.Remedy != "" {
			fmt.Fprintf(w, "\t\t-> %s\n", f.Remedy)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(c.out, "\n%s, %s.\n", countText(len(preflight.Errors(findings)), "error"), countText(len(preflight.Warnings(findings)), "warning"))
	return nil
}
