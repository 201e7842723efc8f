package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// errRed says that a test failed. What failed is printed by then.
var errRed = errors.New("a test failed")

// plan is what a command plays: stages, one after the other.
type plan struct {
	command string
	stages  []stage
}

// stage is jobs that run side by side, after what they need is built.
type stage struct {
	name string
	// builds are commands that run one after the other. One whose name begins with "-" may fail: the tests that need it say what they skip.
	builds []string
	jobs   []job
	// abreast is how many jobs run at a time, 1 if it is 0.
	abreast int
}

// play plays the stages and prints what it sees. A red test ends none of them: a reader sees all that fails in one run. The error is
// errRed when a test failed, and another one when a stage could not be played.
func (p plan) play(ctx context.Context, out io.Writer, o options) error {
	names := namesOf(p.stages)
	for _, name := range o.stages {
		if !slices.Contains(names, name) {
			return fmt.Errorf("there is no stage %q; the stages are %s", name, strings.Join(names, ", "))
		}
	}
	expected, err := readTimes()
	if err != nil {
		return err
	}
	cover, err := newCoverage(o.cover)
	if err != nil {
		return err
	}
	r := &report{out: out, command: p.command, expected: expected, cover: cover}
	began := time.Now()
	var red error
	for _, s := range p.stages {
		if len(o.stages) > 0 && !slices.Contains(o.stages, s.name) {
			continue
		}
		err := s.play(ctx, r)
		if errors.Is(err, errRed) {
			red = errRed
		} else if err != nil {
			r.sum(time.Since(began))
			return err
		}
	}
	r.sum(time.Since(began))
	if red != nil {
		return red
	}
	if o.record {
		if err := r.record(); err != nil {
			return err
		}
	}
	return cover.print(ctx, out)
}

func (s stage) play(ctx context.Context, r *report) error {
	began := time.Now()
	r.begin(s.name)
	for _, command := range s.builds {
		if err := build(ctx, r.out, command); err != nil {
			return err
		}
	}
	var group errgroup.Group
	group.SetLimit(max(1, s.abreast))
	for _, j := range s.longestFirst(r.expected, r.command) {
		group.Go(func() error { return j.play(ctx, r.of(s.name)) })
	}
	err := group.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.end(s.name, time.Since(began))
	return err
}

// longestFirst are the jobs by the times that are expected of them, so that none of the long ones runs alone in the end.
func (s stage) longestFirst(expected times, command string) []job {
	lasts := func(j job) (sum time.Duration) {
		for _, pkg := range j.packages {
			sum += expected[timed{command, s.name, j.label(path.Join(modulePath, j.module, pkg))}]
		}
		return sum
	}
	jobs := slices.Clone(s.jobs)
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(lasts(b), lasts(a)) })
	return jobs
}

// build runs a script of the tree and shows its progress.
func build(ctx context.Context, out io.Writer, command string) error {
	name, optional := strings.CutPrefix(command, "-")
	c := exec.CommandContext(ctx, filepath.FromSlash(name))
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	shown := &progress{out: out}
	c.Stdout, c.Stderr = shown, shown
	// A compiler is over before it has to collect garbage; the linker keeps within the limit.
	c.Env = append(os.Environ(), "GOGC=off", "GOMEMLIMIT=4GiB")
	err := c.Run()
	if err != nil && optional && ctx.Err() == nil {
		fmt.Fprintf(out, "%s: %v; tests that need it are skipped\n", name, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// progress passes lines on, without those that name each module that is downloaded: there are hundreds.
type progress struct {
	out  io.Writer
	rest []byte
}

func (p *progress) Write(text []byte) (int, error) {
	p.rest = append(p.rest, text...)
	for {
		end := bytes.IndexByte(p.rest, '\n')
		if end < 0 {
			return len(text), nil
		}
		line := p.rest[:end+1]
		if !bytes.HasPrefix(line, []byte("go: downloading ")) {
			if _, err := p.out.Write(line); err != nil {
				return 0, err
			}
		}
		p.rest = p.rest[end+1:]
	}
}
