package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"sluice.dev/sluice/pkg/script/cases"
)

func (c *cli) luaCommand() *cobra.Command {
	lua := asParent(&cobra.Command{Use: "lua", Short: "Work with traffic scripts"})
	lua.AddCommand(c.luaNewCommand(), c.luaTestCommand(), c.luaRunCommand(), c.luaConvertCommand())
	return lua
}

func (c *cli) luaConvertCommand() *cobra.Command {
	return &cobra.Command{
		Use: "convert FILE|DIR...", Short: "Write the test cases of scripts as Lua objects, to debug with",
		Long: "For each test case, write <case>_obj.lua next to it: the objects that the script gets at each step, as Lua 5.1 source.\n" +
			"A directory stands for all cases below it: the *.yaml files in directories called testdata, or its own.",
		Example: fmt.Sprintf("  %s lua convert lua_configuration", c.command),
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			for _, path := range args {
				files, err := caseFiles(path)
				if err != nil {
					return err
				}
				for _, file := range files {
					written, err := convertCaseFile(file)
					if err != nil {
						return err
					}
					fmt.Fprintln(c.out, written)
				}
			}
			return nil
		},
	}
}

// caseFiles returns the case files of a path.
func caseFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("find test cases: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(name string, entry os.DirEntry, err error) error {
		dir := filepath.Dir(name)
		if err == nil && !entry.IsDir() && filepath.Ext(name) == ".yaml" && (filepath.Base(dir) == "testdata" || dir == filepath.Clean(path)) {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find test cases: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there is no test case in %s; cases are *.yaml files in directories called testdata", path)
	}
	return files, nil
}

// convertCaseFile writes the whole file or nothing.
func convertCaseFile(file string) (written string, err error) {
	var text strings.Builder
	if err := cases.Convert(&text, file); err != nil {
		return "", fmt.Errorf("convert %s: %w", file, err)
	}
	written = strings.TrimSuffix(file, filepath.Ext(file)) + "_obj.lua"
	if err := os.WriteFile(written, []byte(text.String()), 0o644); err != nil {
		return "", fmt.Errorf("write converted case: %w", err)
	}
	return written, nil
}
