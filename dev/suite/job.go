package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gotest.tools/gotestsum/testjson"
)

// job is one call of go test.
type job struct {
	// module is the directory of its module, "" for the main one.
	module string
	// packages are patterns of go test, relative to the module; a pattern with a leading "-" excludes packages.
	packages []string
	// run and skip select tests as the flags of go test do; "" means all tests for run, and none for skip.
	run, skip string
	// how names the variant of a job, such as "race", for packages that run in several variants.
	how  string
	race bool
	// short skips tests that need a control plane.
	short bool
	// uncached jobs run even if a cached result seems to fit, because they read files that the cache does not know.
	uncached bool
	// abreast is the number of packages in parallel, parallel the number of tests in each; 0 means the default of go test.
	abreast, parallel int
	// args are flags of the test binaries, and env are variables of their environment.
	args, env []string
	// timeout is the timeout of each package; 0 means usual.
	timeout time.Duration
}

const (
	usual    = 30 * time.Minute
	wholeDay = 24 * time.Hour
)

// play runs the job and reports each package. It returns errRed when a test failed.
func (j job) play(ctx context.Context, r stageReport) error {
	packages, err := j.list(ctx)
	if err != nil || len(packages) == 0 {
		return err
	}
	c := exec.CommandContext(ctx, "go", j.arguments(packages, r.cover)...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = time.Minute
	c.Dir, c.Env = j.module, append(j.environment(), r.cover.environment()...)
	stdout, err := c.StdoutPipe()
	if err != nil {
		return fmt.Errorf("make a pipe for go test: %w", err)
	}
	var stderr bytes.Buffer
	c.Stderr = &stderr
	if err := c.Start(); err != nil {
		return fmt.Errorf("start go test: %w", err)
	}
	seen := newSight(j, r)
	execution, scanErr := testjson.ScanTestOutput(testjson.ScanConfig{Stdout: stdout, Handler: seen, IgnoreNonJSONOutputLines: true})
	_, _ = io.Copy(io.Discard, stdout)
	err = c.Wait()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case scanErr != nil:
		return fmt.Errorf("read what go test says: %w", scanErr)
	case err == nil:
		return nil
	}
	if !seen.red {
		r.broken(j, packages, slices.Concat(execution.Errors(), seen.lines, []string{stderr.String()}))
	}
	return errRed
}

// sight collects the results of a job while it runs.
type sight struct {
	job     job
	report  stageReport
	lines   []string
	crashes map[string]*crash
	// red reports that a failure has been printed.
	red bool
}

func newSight(j job, r stageReport) *sight {
	return &sight{job: j, report: r, crashes: map[string]*crash{}}
}

// Event prints the line of a package that has ended.
func (s *sight) Event(e testjson.TestEvent, all *testjson.Execution) error {
	c := s.crashes[e.Package]
	if c == nil {
		c = &crash{running: map[string]bool{}}
		s.crashes[e.Package] = c
	}
	c.note(e)
	if e.PackageEvent() && (e.Action == testjson.ActionPass || e.Action == testjson.ActionFail) {
		s.red = s.report.over(s.job, e.Package, all, c) || s.red
	}
	return nil
}

// crash holds the evidence about a dead test process: the tests that ran, and the output of the Go runtime.
type crash struct {
	running map[string]bool
	said    []string
}

// crashLines bounds the kept lines of the Go runtime; its first lines matter.
const crashLines = 200

func (c *crash) note(e testjson.TestEvent) {
	switch {
	case e.Action == testjson.ActionOutput && len(c.said) < crashLines:
		begins := slices.ContainsFunc([]string{"panic: ", "fatal error: ", "SIG"}, func(prefix string) bool { return strings.HasPrefix(e.Output, prefix) })
		if begins || len(c.said) > 0 {
			c.said = append(c.said, e.Output)
		}
	case e.PackageEvent():
	case e.Action == testjson.ActionRun:
		c.running[e.Test] = true
	case e.Action.IsTerminal():
		delete(c.running, e.Test)
	}
}

// String names the innermost tests that ran, and includes the output of the Go runtime.
func (c *crash) String() string {
	tests := slices.Sorted(maps.Keys(c.running))
	tests = slices.DeleteFunc(tests, func(test string) bool {
		return slices.ContainsFunc(tests, func(other string) bool { return strings.HasPrefix(other, test+"/") })
	})
	text := strings.Join(c.said, "")
	if len(tests) > 0 {
		text = "it ended while these ran: " + strings.Join(tests, ", ") + "\n" + text
	}
	return text
}

// Err keeps a line that is not an event, for a job that fails without a failed test.
func (s *sight) Err(text string) error {
	s.lines = append(s.lines, text+"\n")
	return nil
}

// listed caches the output of go list, because each call takes a second.
var listed sync.Map

// list returns the packages of the job that have tests, in the order of the patterns.
func (j job) list(ctx context.Context) ([]string, error) {
	key := j.module + " " + strings.Join(j.packages, " ")
	if list, ok := listed.Load(key); ok {
		return list.([]string), nil
	}
	var list []string
	for _, pattern := range j.packages {
		without, minus := strings.CutPrefix(pattern, "-")
		c := exec.CommandContext(ctx, "go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", without)
		c.Dir = j.module
		out, err := c.Output()
		if err != nil {
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				return nil, fmt.Errorf("list packages: %w\n%s", err, exit.Stderr)
			}
			return nil, fmt.Errorf("list packages: %w", err)
		}
		for found := range strings.FieldsSeq(string(out)) {
			if minus {
				list = slices.DeleteFunc(list, func(p string) bool { return p == found })
			} else if !slices.Contains(list, found) {
				list = append(list, found)
			}
		}
	}
	listed.Store(key, list)
	return list, nil
}

func (j job) arguments(packages []string, cover *coverage) []string {
	args := []string{"test", "-json", "-vet=off", "-timeout", cmp.Or(j.timeout, usual).String()}
	if j.racing() {
		args = append(args, "-race")
	}
	if j.short {
		args = append(args, "-short")
	}
	if j.uncached {
		args = append(args, "-count=1")
	}
	if j.run != "" {
		args = append(args, "-run", j.run)
	}
	if j.skip != "" {
		args = append(args, "-skip", j.skip)
	}
	if j.abreast > 0 {
		args = append(args, "-p", strconv.Itoa(j.abreast))
	}
	if j.parallel > 0 {
		args = append(args, "-parallel", strconv.Itoa(j.parallel))
	}
	measured := j.module == ""
	if measured {
		args = append(args, cover.build()...)
	}
	args = append(append(args, packages...), j.args...)
	if measured {
		args = append(args, cover.run()...)
	}
	return args
}

// environment returns the environment of go test. Only the race detector needs cgo. Equal settings let jobs share compiled packages.
func (j job) environment() []string {
	env := os.Environ()
	if j.racing() {
		env = append(env, "CGO_ENABLED=1", "GORACE=atexit_sleep_ms=0") // each process, of the CLI too, would sleep a second at its end
	} else {
		env = append(env, "CGO_ENABLED=0")
	}
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		// Compilers, tests and API servers spend much of their time on garbage collection, and memory is available. Above the limit, a process collects more often.
		env = append(env, "GOGC=800", "GOMEMLIMIT=2GiB")
	}
	return append(env, j.env...)
}

func (j job) racing() bool { return j.race && compilesC() }

// compilesC reports whether there is a C compiler, which the race detector needs.
var compilesC = sync.OnceValue(func() bool {
	out, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		return false
	}
	_, err = exec.LookPath(strings.TrimSpace(string(out)))
	return err == nil
})

// label names a package of the job in output lines and in the list of times.
func (j job) label(pkg string) string {
	name := strings.TrimPrefix(pkg, modulePath+"/")
	if j.how != "" {
		name += " (" + j.how + ")"
	}
	return name
}

// again returns the command that repeats a test of the job; test "" means all tests of the package.
func (j job) again(pkg, test string) string {
	words := slices.Clone(j.env)
	if j.racing() {
		words = append(words, "CGO_ENABLED=1")
	}
	words = append(words, "go")
	if j.module != "" {
		words = append(words, "-C", j.module)
	}
	words = append(words, "test", "-count=1")
	if j.racing() {
		words = append(words, "-race")
	}
	if j.short {
		words = append(words, "-short")
	}
	switch {
	case test != "":
		words = append(words, "-run", quoted(exactly(test)))
	case j.run != "":
		words = append(words, "-run", quoted(j.run))
	}
	words = append(words, "./"+strings.TrimPrefix(strings.TrimPrefix(pkg, path.Join(modulePath, j.module)), "/"))
	return strings.Join(append(words, j.args...), " ")
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
