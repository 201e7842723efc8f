package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice.dev/sluice/cmd/internal/color"
	"sluice.dev/sluice/cmd/sluice/internal/analysistry"
	"sluice.dev/sluice/pkg/metric"
)

// codeBadTemplate is the exit code for an unusable template or argument.
const codeBadTemplate = 2

const tryCodes = `Exit codes:
  0  every metric could be judged, whether it passes or fails
  1  a metric could not be measured, or had no data
  2  a template is wrong, or an argument is missing`

type tryOptions struct {
	file, prometheus, metric, tokenFile, output string
	args                                        []string
}

func (c *cli) analysisTryCommand() *cobra.Command {
	var o tryOptions
	try := &cobra.Command{
		Use: "try -f FILE", Short: "Run the metrics of a template once, and explain what comes of it",
		Long: "Run each metric of an AnalysisTemplate or a ClusterAnalysisTemplate once, now: show the queries with all arguments, what Prometheus\n" +
			"answers, and how that is judged. A comparison looks at the last five intervals. Arguments that a Rollout would give are made up, and\n" +
			"shown. It needs no cluster.\n\n" + tryCodes,
		Example: fmt.Sprintf("  %[1]s analysis try -f template.yaml --arg canaryService=checkout-canary --prometheus http://localhost:9090\n"+
			"  %[1]s install --print --part templates | %[1]s analysis try -f - --metric success-rate --arg workload=checkout -n shop --prometheus http://localhost:9090", c.command),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.tryTemplates(cmd.Context(), cmd.InOrStdin(), o) },
	}
	flags := try.Flags()
	flags.StringVarP(&o.file, "filename", "f", "", "file with one or more templates, - for the standard input")
	flags.StringArrayVar(&o.args, "arg", nil, "value of an argument, as NAME=VALUE; may be given several times")
	flags.StringVar(&o.prometheus, "prometheus", "", "ask this Prometheus instead of the templates' own, such as http://localhost:9090")
	flags.StringVar(&o.metric, "metric", "", "run the metrics of this name only")
	flags.StringVar(&o.tokenFile, "token-file", "", "file with a token for Prometheus, instead of the Secret that a template names")
	flags.StringVarP(&o.output, "output", "o", "", "json or yaml instead of text")
	_ = try.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return try
}

func (c *cli) tryTemplates(ctx context.Context, stdin io.Reader, o tryOptions) error {
	if o.output != "" && o.output != "json" && o.output != "yaml" {
		return fmt.Errorf("--output %q: use json or yaml", o.output)
	}
	templates, err := o.readTemplates(stdin)
	if err != nil {
		return badTemplate(err)
	}
	options, err := o.trialOptions(c.namespace)
	if err != nil {
		return badTemplate(err)
	}
	// The user chooses the provider, not the author of a template. The default refuses hosts of this machine, so they are listed.
	hosts, err := metric.ParseHosts([]string{"*", "localhost", "127.0.0.1", "::1"})
	if err != nil {
		return err
	}
	client := metric.New(metric.Options{Hosts: hosts})
	defer client.Close()
	var reports []analysistry.Report
	unjudged := 0
	for _, t := range templates {
		r, err := t.Run(ctx, client, options)
		if err != nil {
			return badTemplate(err)
		}
		for _, m := range r.Metrics {
			if !m.Judged() {
				unjudged++
			}
		}
		if len(r.Metrics) > 0 {
			reports = append(reports, r)
		}
	}
	if ctx.Err() != nil {
		return context.Canceled
	}
	if len(reports) == 0 {
		return badTemplate(fmt.Errorf("no metric is called %q; %s has %s", o.metric, o.file, strings.Join(metricNames(templates), ", ")))
	}
	if err := printEach(c, "templates", reports, analysistry.Report.Text, o.output); err != nil {
		return err
	}
	if unjudged > 0 {
		return errors.New(countText(unjudged, "metric") + " could not be judged; what to do about it is said above")
	}
	return nil
}

func badTemplate(err error) error { return outcome{codeBadTemplate, "error: " + err.Error()} }

func metricNames(templates []analysistry.Template) (list []string) {
	for _, t := range templates {
		for _, m := range t.Spec.Metrics {
			list = append(list, m.Name)
		}
	}
	return list
}

func (o tryOptions) readTemplates(stdin io.Reader) ([]analysistry.Template, error) {
	if o.file == "" {
		return nil, errors.New("name the file with the template: -f FILE, or -f - for the standard input")
	}
	in := stdin
	if o.file != "-" {
		opened, err := os.Open(o.file)
		if err != nil {
			return nil, fmt.Errorf("read template: %w", err)
		}
		defer opened.Close()
		in = opened
	}
	templates, err := analysistry.ReadTemplates(io.LimitReader(in, maxFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.file, err)
	}
	return templates, nil
}

func (o tryOptions) trialOptions(namespace string) (analysistry.Options, error) {
	options := analysistry.Options{Args: map[string]string{}, Namespace: namespace, Prometheus: o.prometheus, Metric: o.metric, Now: time.Now()}
	if namespace == "" {
		options.Namespace = "default"
	} else {
		options.Args["namespace"] = namespace
	}
	for _, arg := range o.args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return options, fmt.Errorf("--arg %q: write NAME=VALUE", arg)
		}
		if _, twice := options.Args[name]; twice {
			return options, fmt.Errorf("the argument %s is given twice; leave one out", name)
		}
		options.Args[name] = value
	}
	if o.tokenFile != "" {
		token, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return options, fmt.Errorf("read token: %w", err)
		}
		options.Token = strings.TrimSpace(string(token))
	}
	return options, nil
}

// printEach prints the texts of reports in sequence, or all reports as one document under key.
func printEach[T any](c *cli, key string, reports []T, text func(T, color.Ink) []string, output string) error {
	if output != "" {
		return c.printValues(output, map[string]any{key: reports})
	}
	for i, r := range reports {
		if i > 0 {
			fmt.Fprintln(c.out)
		}
		for _, line := range text(r, color.Ink{On: c.viewStyle().Color}) {
			fmt.Fprintln(c.out, line)
		}
	}
	return nil
}
