package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"sluice.dev/sluice/cmd/internal/color"
	"sluice.dev/sluice/cmd/sluice/internal/luatest"
	"sluice.dev/sluice/pkg/diff"
	"sluice.dev/sluice/pkg/script/cases"
)

const luaRunCodes = `Exit codes:
  0  the object is printed
  1  the step is refused: by the script, by capabilities.yaml beside it, or by what is checked after it
  2  a file cannot be read, or the command line is wrong`

type luaRunOptions struct {
	object, rollout, service, output string
	step, weight                     int
	headers                          []string
	shared, diff                     bool
}

func (c *cli) luaRunCommand() *cobra.Command {
	var o luaRunOptions
	command := &cobra.Command{
		Use: "run SCRIPT --obj FILE", Short: "Run a script on an object, at one step",
		Long: "Print what a script makes of an object for a step, judged as a release would judge it, or why it is refused. The step is one of a Rollout\n" +
			"or TrafficRouting (--rollout, --step), or is given by --service with --weight and --header. The output is a List if the step has further objects.\n\n" + luaRunCodes,
		Example: fmt.Sprintf("  %[1]s lua run trafficRouting.lua --obj route.yaml --rollout rollout.yaml --step 2\n"+
			"  %[1]s lua run trafficRouting.lua --obj route.yaml --service shop --weight 20 --diff\n"+
			"  %[1]s lua run trafficRouting.lua --obj route.yaml --service shop --header user=beta", c.command),
		Args: usageArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"lua"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			set := cmd.Flags().Changed
			if err := o.checkFlags(set("weight"), set("step")); err != nil {
				return unreadableError(err)
			}
			return c.runLua(cmd.Context(), cmd.InOrStdin(), args[0], o, set("weight"))
		},
	}
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return unreadableError(err) })
	flags := command.Flags()
	flags.StringVar(&o.object, "obj", "", "file with the object, - for the standard input")
	flags.StringVar(&o.rollout, "rollout", "", "file with the Rollout or TrafficRouting that asks")
	flags.IntVar(&o.step, "step", 1, "number of its step, from 1 on")
	flags.StringVar(&o.service, "service", "", "stable Service, instead of --rollout; the canary Service is called <service>-canary")
	flags.IntVar(&o.weight, "weight", 0, "share of the traffic for the canary, in percent")
	flags.StringArrayVar(&o.headers, "header", nil, "header that requests for the canary have, as NAME=VALUE; of several all must match")
	flags.BoolVar(&o.shared, "shared-service", false, "both versions stand behind the stable Service")
	flags.BoolVar(&o.diff, "diff", false, "print what differs from the object, instead of all of it")
	flags.StringVarP(&o.output, "output", "o", "yaml", "json or yaml")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

func (o luaRunOptions) checkFlags(weight, step bool) error {
	flags := weight || len(o.headers) > 0 || o.service != "" || o.shared
	switch {
	case o.output != "json" && o.output != "yaml":
		return fmt.Errorf("--output %q: use json or yaml", o.output)
	case o.object == "":
		return errors.New("name the file with the object: --obj FILE, or --obj - for the standard input")
	case o.rollout != "" && flags:
		return errors.New("--rollout says all about its steps; leave out --service, --weight, --header and --shared-service")
	case o.rollout == "" && o.service == "":
		return errors.New("say what the step asks for: --rollout FILE --step N, or --service NAME with --weight or --header")
	case o.rollout == "" && step:
		return errors.New("--step is one of a Rollout: add --rollout FILE")
	}
	return nil
}

func (c *cli) runLua(ctx context.Context, stdin io.Reader, script string, o luaRunOptions, weight bool) error {
	object, err := readManifest(o.object, stdin)
	if err != nil {
		return unreadableError(err)
	}
	rollout, err := o.readRollout(stdin, weight)
	if err != nil {
		return unreadableError(err)
	}
	in, err := luatest.StepInput(rollout, object, o.step)
	if err != nil {
		return unreadableError(err)
	}
	t, err := luatest.TryScript(ctx, script, object, in)
	if err != nil {
		return unreadableError(err)
	}
	if t.Refused != "" {
		return outcome{1, "refused: " + t.Refused}
	}
	if len(t.Created) > 0 {
		items := []any{t.After}
		for _, created := range t.Created {
			items = append(items, created)
		}
		list := func(items ...any) map[string]any {
			return map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
		}
		t.Before, t.After = list(t.Before), list(items...)
	}
	if !o.diff {
		return c.printValues(o.output, t.After)
	}
	lines, err := diff.CompareObjects("before", t.Before, "after", t.After)
	if err != nil {
		return err
	}
	for _, line := range color.PaintDiff(lines, color.Ink{On: c.viewStyle().Color}) {
		fmt.Fprintln(c.out, line)
	}
	return nil
}

// readRollout returns the Rollout of a file, or one built from the flags.
func (o luaRunOptions) readRollout(stdin io.Reader, weight bool) (map[string]any, error) {
	if o.rollout != "" {
		return readManifest(o.rollout, stdin)
	}
	step := luatest.Step{Service: o.service, Shared: o.shared}
	if weight {
		step.Weight = &o.weight
	}
	for _, h := range o.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--header %q: write NAME=VALUE", h)
		}
		step.Headers = append(step.Headers, [2]string{name, value})
	}
	return step.ToRollout(), nil
}

// readManifest reads one object from a file, or from the standard input.
func readManifest(file string, stdin io.Reader) (map[string]any, error) {
	in := stdin
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		defer opened.Close()
		in = opened
	}
	text, err := io.ReadAll(io.LimitReader(in, maxFile))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	object, err := cases.ReadManifest(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if object == nil {
		return nil, fmt.Errorf("%s holds no object", file)
	}
	return object, nil
}
