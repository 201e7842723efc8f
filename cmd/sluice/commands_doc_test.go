package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestThePageOfCommands finds every command on its page, in an example that the command line accepts.
func TestThePageOfCommands(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	code := false
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		words := split(line)
		if !code || len(words) == 0 || words[0] != "sluice" {
			continue
		}
		var out bytes.Buffer
		root := newRoot("sluice", &out, &out)
		command, rest, err := root.Find(words[1:])
		if err == nil {
			err = command.ParseFlags(rest)
		}
		if err == nil {
			err = command.ValidateArgs(command.Flags().Args())
		}
		if err == nil {
			err = command.ValidateFlagGroups()
		}
		if err != nil || !command.Runnable() {
			t.Errorf("%s: %v", line, err)
			continue
		}
		shown[command.CommandPath()] = true
	}
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		for _, child := range c.Commands() {
			visit(child)
		}
		if c.Runnable() && !c.HasSubCommands() && !shown[c.CommandPath()] {
			t.Errorf("%s has no example", c.CommandPath())
		}
		if c.Runnable() && c.Short == "" {
			t.Errorf("%s does not say what it does", c.CommandPath())
		}
	}
	var out bytes.Buffer
	visit(newRoot("sluice", &out, &out))
}

// split splits a line into words as a shell does, as far as these lines need it.
func split(line string) []string {
	var words []string
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	return words
}
