package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sluice.dev/sluice/cmd/internal/color"
	"sluice.dev/sluice/cmd/sluice/internal/luatest"
)

// codeUnreadable is the exit code for unreadable files and wrong command lines, because 1 means a failed case.
const codeUnreadable = 2

func unreadableError(err error) error { return outcome{codeUnreadable, "error: " + err.Error()} }

const luaTestCodes = `Exit codes:
  0  every step passed
  1  a step failed
  2  a script or a case cannot be read, there is none, or the command line is wrong`

type luaTestOptions struct {
	output        string
	watch, update bool
}

func (c *cli) luaTestCommand() *cobra.Command {
	var o luaTestOptions
	command := &cobra.Command{
		Use: "test DIR", Short: "Run the test cases of scripts, and show what differs",
		Long: "Run the cases below a directory: <group>/<Kind>/testdata/*.yaml next to each trafficRouting.lua,\n" +
			"and trafficrouting_ingress/<class>/testdata/*.yaml for each <class>.lua. DIR may also be the directory of one kind.\n" +
			"Each step is rendered, judged as a release would judge it, and compared with what the case expects.\n\n" +
			"--update writes what the scripts make into the cases that fail, in the place of what they expect: look at what changed before you keep it.\n\n" + luaTestCodes,
		Example: fmt.Sprintf("  %[1]s lua test lua_configuration\n"+
			"  %[1]s lua test apisix.apache.org/ApisixRoute --watch", c.command),
		Args: usageArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.runLuaTest(cmd.Context(), args[0], o) },
	}
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return unreadableError(err) })
	flags := command.Flags()
	flags.BoolVarP(&o.watch, "watch", "w", false, "run them again whenever a file below DIR changes, until interrupted")
	flags.BoolVar(&o.update, "update", false, "write what the scripts make into the cases, as what they expect")
	flags.StringVarP(&o.output, "output", "o", "", "json or yaml instead of text")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

// usageArgs wraps a check of arguments, so that its errors have the exit code of a wrong command line.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return unreadableError(err)
		}
		return nil
	}
}

func (c *cli) runLuaTest(ctx context.Context, dir string, o luaTestOptions) error {
	switch {
	case o.output != "" && o.output != "json" && o.output != "yaml":
		return unreadableError(fmt.Errorf("--output %q: use json or yaml", o.output))
	case o.watch && (o.output != "" || o.update):
		return unreadableError(errors.New("--watch goes with neither --output nor --update"))
	}
	if o.update {
		changed, err := luatest.UpdateCases(ctx, dir)
		if err != nil {
			return unreadableError(err)
		}
		for _, file := range changed {
			fmt.Fprintln(c.errors, "updated", file)
		}
	}
	if o.watch {
		return c.watchLuaTest(ctx, dir)
	}
	return c.luaTestOnce(ctx, dir, o.output)
}

func (c *cli) luaTestOnce(ctx context.Context, dir, output string) error {
	report, err := luatest.RunCases(ctx, dir)
	if err != nil {
		return unreadableError(err)
	}
	if output != "" {
		err = c.printValues(output, report)
	} else {
		for _, line := range report.Text(color.Ink{On: c.viewStyle().Color}) {
			fmt.Fprintln(c.out, line)
		}
	}
	if err == nil && report.Failed > 0 {
		err = outcome{1, ""}
	}
	return err
}

// watchEvery is the interval of polling files; a file system watch is not worth a dependency here.
const watchEvery = 300 * time.Millisecond

// watchLuaTest runs the cases again after each change of a file, until ctx is done.
func (c *cli) watchLuaTest(ctx context.Context, dir string) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	last := ""
	for {
		now, err := luatest.FileStates(dir)
		if err != nil {
			return unreadableError(err)
		}
		if now != last {
			if last != "" {
				fmt.Fprintln(c.out)
			}
			last = now
			if err := c.luaTestOnce(ctx, dir, ""); err != nil && errorMessage(err) != "" {
				fmt.Fprintln(c.errors, errorMessage(err)) // for example a file that is half written
			}
			fmt.Fprintf(c.errors, "Watching %s; end it with Ctrl-C.\n", dir)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
