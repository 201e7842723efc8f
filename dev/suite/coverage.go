package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/tools/cover"
)

// covered selects the packages whose coverage is measured. Tests of all packages count.
const covered = "./pkg/..."

// coverage is the directory in which test binaries write their coverage data. nil measures nothing.
type coverage struct{ dir string }

func newCoverage(dir string) (*coverage, error) {
	if dir == "" {
		return nil, nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the directory of the coverage: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of the coverage: %w", err)
	}
	return &coverage{dir}, nil
}

func (c *coverage) build() []string {
	if c == nil {
		return nil
	}
	return []string{"-covermode=atomic", "-coverpkg=" + covered} // -race requires this mode, and profiles of two modes cannot be merged
}

func (c *coverage) run() []string {
	if c == nil {
		return nil
	}
	return []string{"-args", "-test.gocoverdir=" + c.dir}
}

// environment makes test binaries that run as another program write coverage data too.
func (c *coverage) environment() []string {
	if c == nil {
		return nil
	}
	return []string{"GOCOVERDIR=" + c.dir}
}

// print prints the coverage of each package, and of all.
func (c *coverage) print(ctx context.Context, out io.Writer) error {
	if c == nil {
		return nil
	}
	profile := filepath.Join(c.dir, "profile.txt")
	for _, args := range [][]string{
		{"tool", "covdata", "percent", "-i=" + c.dir},
		{"tool", "covdata", "textfmt", "-i=" + c.dir, "-o=" + profile},
	} {
		command := exec.CommandContext(ctx, "go", args...)
		command.Stdout, command.Stderr = out, out
		if err := command.Run(); err != nil {
			return fmt.Errorf("read the coverage: %w", err)
		}
	}
	total, err := percentOf(profile)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "tests execute %.1f %% of the statements of pkg/\n", total)
	return nil
}

// percentOf returns the percentage of all statements that a profile covers.
func percentOf(profile string) (float64, error) {
	files, err := cover.ParseProfiles(profile)
	if err != nil {
		return 0, fmt.Errorf("read the coverage: %w", err)
	}
	var all, executed int
	for _, file := range files {
		for _, block := range file.Blocks {
			all += block.NumStmt
			if block.Count > 0 {
				executed += block.NumStmt
			}
		}
	}
	if all == 0 {
		return 0, nil
	}
	return 100 * float64(executed) / float64(all), nil
}
