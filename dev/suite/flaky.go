package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// trial holds the options of `suite flaky`.
type trial struct {
	runs, copies      int
	cpu, memory, disk int
	quota             int
	race              bool
	run, skip         string
	outputs           string
	parallel          int
}

func flakyCommand() *cobra.Command {
	t := trial{outputs: filepath.Join("bin", "flaky")}
	c := &cobra.Command{
		Use:   "flaky PACKAGE...",
		Short: "Run packages again and again under load, and print how often each test failed",
		Long: "Run packages again and again under a load that takes the machine away from them, and print how often each test failed.\n" +
			"Several copies of a package run at once and are a load for each other. The output of a failed run is kept in a file.",
		Example: "  suite flaky ./pkg/queue --runs 50 --copies 8\n  suite flaky ./test/scenario --run TestApprove --cpu 8 --disk 1",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, packages []string) error {
			return t.play(c.Context(), c.OutOrStdout(), packages)
		},
	}
	f := c.Flags()
	f.IntVar(&t.runs, "runs", 20, "how often each package is played")
	f.IntVar(&t.copies, "copies", 4, "how many copies of a package run at once")
	f.IntVar(&t.cpu, "cpu", 0, "how many processes take the processor away")
	f.IntVar(&t.memory, "memory", 0, "how many GiB of memory are kept in use")
	f.IntVar(&t.disk, "disk", 0, "how many processes write to the disk and flush it")
	f.IntVar(&t.quota, "quota", 100, "the percentage of the time that a test binary may run; it is stopped for the rest of each 100 ms")
	f.BoolVar(&t.race, "race", false, "build with the race detector")
	f.StringVar(&t.run, "run", "", "play only the tests that match, as go test does")
	f.StringVar(&t.skip, "skip", "", "leave out the tests that match, as go test does")
	f.IntVar(&t.parallel, "parallel", 0, "how many tests of one run go on at once")
	f.StringVar(&t.outputs, "outputs", t.outputs, "the directory for what failed runs said")
	return c
}

// tally is the result of a package.
type tally struct {
	pkg     string
	runs    int
	red     int
	failed  map[string]int
	longest time.Duration
}

func (t trial) play(ctx context.Context, out io.Writer, patterns []string) error {
	if t.runs < 1 || t.copies < 1 || t.quota < 1 || t.quota > 100 {
		return fmt.Errorf("there must be at least one run and one copy, and a quota from 1 to 100, not %d, %d and %d", t.runs, t.copies, t.quota)
	}
	packages, err := job{packages: patterns}.list(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sluice-flaky-")
	if err != nil {
		return fmt.Errorf("make a directory for test binaries: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := os.MkdirAll(t.outputs, 0o755); err != nil {
		return fmt.Errorf("make the directory of outputs: %w", err)
	}
	for kind, count := range map[string]int{"cpu": t.cpu, "memory": t.memory, "disk": t.disk} {
		stop, err := startLoad(ctx, kind, dir, count)
		if err != nil {
			return err
		}
		defer stop()
	}
	var list []*tally
	for _, pkg := range packages {
		one, err := t.of(ctx, out, dir, pkg)
		if err != nil {
			return err
		}
		list = append(list, one)
	}
	return t.tell(out, list)
}

// of runs one package for the given number of rounds.
func (t trial) of(ctx context.Context, out io.Writer, dir, pkg string) (*tally, error) {
	label := strings.TrimPrefix(pkg, modulePath+"/")
	binary := filepath.Join(dir, strings.ReplaceAll(label, "/", "_")+".test")
	compiled := job{race: t.race}
	args := []string{"test", "-c", "-vet=off", "-o", binary}
	if compiled.racing() {
		args = append(args, "-race")
	}
	build := exec.CommandContext(ctx, "go", append(args, pkg)...)
	build.Env = compiled.environment()
	if said, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile the tests of %s: %w\n%s", label, err, said)
	}
	defer os.Remove(binary)
	one := &tally{pkg: label, failed: map[string]int{}}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(t.copies)
	for n := range t.runs {
		group.Go(func() error {
			began := time.Now()
			said, failed, err := t.once(ctx, binary, label)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			mu.Lock()
			defer mu.Unlock()
			one.runs++
			one.longest = max(one.longest, time.Since(began))
			if err == nil {
				return nil
			}
			one.red++
			for _, test := range failed {
				one.failed[test]++
			}
			path := filepath.Join(t.outputs, fmt.Sprintf("%s-%d.txt", filepath.Base(binary), n))
			fmt.Fprintf(out, "%s: run %d failed (%v): %s; see %s\n", label, n, err, strings.Join(failed, ", "), path)
			return os.WriteFile(path, said, 0o644)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "%s: %d runs, %d failed, the longest took %s\n", label, one.runs, one.red, seconds(one.longest))
	return one, nil
}

// once runs a test binary once and returns its output and the failed tests.
func (t trial) once(ctx context.Context, binary, label string) (said []byte, failed []string, err error) {
	args := []string{"-test.v", "-test.timeout=" + usual.String()}
	for flag, value := range map[string]string{"run": t.run, "skip": t.skip} {
		if value != "" {
			args = append(args, "-test."+flag+"="+value)
		}
	}
	if t.parallel > 0 {
		args = append(args, fmt.Sprintf("-test.parallel=%d", t.parallel))
	}
	c := exec.CommandContext(ctx, binary, args...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.Dir, c.Env = filepath.FromSlash(label), job{race: t.race}.environment()
	var text bytes.Buffer
	c.Stdout, c.Stderr = &text, &text
	if err := c.Start(); err != nil {
		return nil, nil, fmt.Errorf("start the tests of %s: %w", label, err)
	}
	free := throttle(c.Process, t.quota)
	err = c.Wait()
	free()
	return text.Bytes(), failedIn(text.String()), err
}

var failLine = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// failedIn lists the failed tests in the output of a test binary. It omits a test with a failed subtest.
func failedIn(text string) (tests []string) {
	for _, found := range failLine.FindAllStringSubmatch(text, -1) {
		tests = append(tests, found[1])
	}
	if tests == nil {
		return []string{"no test by name"}
	}
	return slices.DeleteFunc(slices.Clone(tests), func(name string) bool {
		return slices.ContainsFunc(tests, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
}

// period is the length of one round of throttling, the same as for a CPU quota in Linux.
const period = 100 * time.Millisecond

// throttle lets a process run only for a percentage of the time, until the caller calls free. It does not throttle children of the process.
func throttle(process *os.Process, percent int) (free func()) {
	if percent >= 100 {
		return func() {}
	}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		run := period * time.Duration(percent) / 100
		for {
			for _, turn := range []struct {
				signal syscall.Signal
				then   time.Duration
			}{{syscall.SIGSTOP, period - run}, {syscall.SIGCONT, run}} {
				_ = process.Signal(turn.signal) // it fails once the process has ended
				select {
				case <-time.After(turn.then):
				case <-over:
					return
				}
			}
		}
	}()
	return func() { close(over); <-done }
}

func (t trial) tell(out io.Writer, list []*tally) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "package\truns\tfailed\tlongest\ttests that failed")
	red := false
	for _, one := range list {
		red = red || one.red > 0
		var tests []string
		for name, times := range one.failed {
			tests = append(tests, fmt.Sprintf("%s (%d)", name, times))
		}
		slices.Sort(tests)
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%s\n", one.pkg, one.runs, one.red, seconds(one.longest), strings.Join(tests, ", "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if red {
		return errRed
	}
	return nil
}
