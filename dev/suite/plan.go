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

// errRed means that a test failed. The failures have been printed.
var errRed = errors.New("a test failed")

// plan holds the stages of a command, in sequence.
type plan struct {
	command string
	stages  []stage
}

// stage holds jobs that run in parallel, after the builds.
type stage struct {
	name string
	// builds are commands in sequence. A command with a leading "-" may fail: the tests that need it report that they skip.
	builds []string
	jobs   []job
	// abreast is the number of jobs in parallel; 0 means 1.
	abreast int
}

// play runs the stages and prints their results. A failed test stops no stage, so that one run shows all failures. The error is errRed when a test failed, and
// another one when a stage could not run.
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

// longestFirst sorts the jobs by their expected times, so that no long job runs alone at the end.
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
	// A compiler ends before it needs garbage collection; the linker stays below the limit.
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

// progress forwards lines, except for the hundreds of lines that name a downloaded module.
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
