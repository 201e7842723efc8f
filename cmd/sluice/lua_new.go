package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"sluice.dev/sluice/cmd/sluice/internal/luatest"
)

func (c *cli) luaNewCommand() *cobra.Command {
	dir := "."
	command := &cobra.Command{
		Use: "new GROUP KIND", Short: "Make a script for a kind of gateway object, with a test case that passes",
		Long: "Write DIR/GROUP/KIND with trafficRouting.lua, capabilities.yaml and testdata/weights.yaml, to begin with. What exists is left alone.",
		Example: fmt.Sprintf("  %[1]s lua new apisix.apache.org ApisixRoute\n"+
			"  %[1]s lua new apisix.apache.org ApisixRoute --dir lua_configuration", c.command),
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			written, err := luatest.NewScript(dir, args[0], args[1])
			if err != nil {
				return err
			}
			for _, file := range written {
				fmt.Fprintln(c.out, file)
			}
			fmt.Fprintf(c.errors, "Next: %s lua test %s --watch\n", c.command, filepath.Join(dir, args[0], args[1]))
			return nil
		},
	}
	command.Flags().StringVar(&dir, "dir", dir, "directory to make it in")
	_ = command.MarkFlagDirname("dir")
	return command
}
