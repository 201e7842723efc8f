// Suite runs the tests of the project. `suite test` runs the tests that a contributor needs to trust a change, and `suite verify` runs all others. `suite list`
// prints the number of tests of both, and `suite flaky` runs packages repeatedly on a busy machine.
//
// It prints one line for each package, and for each failed test its output and the command to repeat it. Its one invariant: `suite test` or `suite verify` runs
// each test of the tree; TestEveryTestIsPlayed checks this.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := command().ExecuteContext(ctx); {
	case errors.Is(err, errRed):
		os.Exit(1)
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "suite: interrupted")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(2)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{Use: "suite", Short: "Play the tests of the project", SilenceErrors: true, SilenceUsage: true}
	verify := playCommand("verify", "Play all tests that `suite test` does not play")
	verify.Flags().String(wholeFlag, "", "play these stages in full, instead of a part: "+strings.Join(namesOf(wholes()), ", "))
	root.AddCommand(playCommand("test", "Play what a contributor needs to trust a change"), verify, listCommand(), flakyCommand(), loadCommand())
	return root
}

// wholeFlag names the stage of [wholes] to run.
const wholeFlag = "whole"

// options are the flags of `suite test` and `suite verify`.
type options struct {
	stages []string
	cover  string
	record bool
}

func playCommand(name, short string) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := planOf(name)
			if err != nil {
				return err
			}
			if whole := c.Flags().Lookup(wholeFlag); whole != nil && whole.Changed {
				p.stages, o.stages = wholes(), []string{whole.Value.String()}
			}
			return p.play(c.Context(), c.OutOrStdout(), o)
		},
	}
	c.Flags().StringSliceVar(&o.stages, "stage", nil, "play these stages only, separated by commas; `suite list` names them")
	c.Flags().StringVar(&o.cover, "cover", "", "write what the tests execute of pkg/ to this directory, and print its share of all statements")
	c.Flags().BoolVar(&o.record, "record", false, "write the times of this run to "+timesFile+", as the expected times")
	return c
}

func namesOf(stages []stage) []string {
	var names []string
	for _, s := range stages {
		names = append(names, s.name)
	}
	return names
}
