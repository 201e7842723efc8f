// Mutants shows that the tests of pkg can fail. It breaks the product, one mistake at a time, and requires each time that a named test fails. `make test` runs
// these tests too. The tree itself stays unchanged, because one build uses the broken files as an overlay.
//
// It does not measure coverage; each mutant is a mistake that a developer could make. Its invariant: a mutant whose text is no longer found, or that does not
// compile, is an error and never a success.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	only := flag.String("only", "", "try the mutants only whose name contains this")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string) error {
	dir, err := os.MkdirTemp("", "sluice-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	began, alive := time.Now(), 0
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, m := range mutants() {
		if !strings.Contains(m.name, only) {
			continue
		}
		start := time.Now()
		verdict, err := m.try(ctx, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if verdict == "" {
			alive++
			verdict = "ALIVE: no test failed"
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", m.name, verdict)
		fmt.Fprintf(table, "%s\t%s\t%s\n", m.name, verdict, time.Since(start).Round(time.Second))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Printf("%d mutants alive, in %s\n", alive, time.Since(began).Round(time.Second))
	if alive > 0 {
		return errors.New("a mutant that no test notices is a mistake that nobody would notice")
	}
	return nil
}

// try builds a mutant and runs its tests. It returns the first test that fails, "" if none does.
func (m mutant) try(ctx context.Context, dir string) (verdict string, err error) {
	overlay, err := m.overlay(dir)
	if err != nil {
		return "", err
	}
	if out, err := golang(ctx, "build", "-overlay", overlay, "./pkg/..."); err != nil {
		return "", fmt.Errorf("it does not compile: %w\n%s", err, out)
	}
	out, err := golang(ctx, append([]string{"test", "-count=1", "-vet=off", "-overlay", overlay}, m.caught...)...)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err == nil {
		return "", nil
	}
	failed := failure(out)
	if failed == "" {
		return "", fmt.Errorf("go test %s: %w\n%s", strings.Join(m.caught, " "), err, out)
	}
	return failed, nil
}

// overlay writes the broken files outside of the tree, and the file that maps them onto it.
func (m mutant) overlay(dir string) (path string, err error) {
	broken := map[string]string{}
	for i, e := range m.edits {
		file, err := filepath.Abs(e.file)
		if err != nil {
			return "", err
		}
		source := file
		if earlier := broken[file]; earlier != "" {
			source = earlier
		}
		text, err := os.ReadFile(source)
		if err != nil {
			return "", fmt.Errorf("run it in the root of the repository: %w", err)
		}
		if n := strings.Count(string(text), e.old); n != 1 {
			return "", fmt.Errorf("%s has the text %q %d times, not once; bring dev/mutants up to date", e.file, e.old, n)
		}
		broken[file] = filepath.Join(dir, fmt.Sprintf("%d-%s", i, filepath.Base(file)))
		if err := os.WriteFile(broken[file], []byte(strings.Replace(string(text), e.old, e.new, 1)), 0o600); err != nil {
			return "", err
		}
	}
	body, err := json.Marshal(map[string]any{"Replace": broken})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, body, 0o600)
}

func golang(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	out, err := command.CombinedOutput()
	return string(out), err
}

// failure reads from the output of go test which test failed, and its first failing case. It returns "" if no test failed and the run had another error.
func failure(out string) string {
	if !regexp.MustCompile(`(?m)^\s+\S+\.go:\d+: `).MatchString(out) {
		return ""
	}
	name := ""
	for _, found := range regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`).FindAllStringSubmatch(out, -1) {
		if name != "" && !strings.HasPrefix(found[1], name+"/") {
			break
		}
		name = found[1]
	}
	return name
}
