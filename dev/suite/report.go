package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"gotest.tools/gotestsum/testjson"
)

// modulePath is the path of the main module. A nested module has this path and its directory as its path.
const modulePath = "sluice.dev/sluice"

// report prints the progress. Its methods are safe for concurrent use.
type report struct {
	out      io.Writer
	command  string
	expected times
	cover    *coverage

	mu       sync.Mutex
	took     times
	passed   int
	failed   int
	skipped  int
	packages int
	stages   []string
}

// stageReport is the report of one stage.
type stageReport struct {
	*report
	stage string
}

func (r *report) of(stage string) stageReport { return stageReport{r, stage} }

func (r *report) begin(stage string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, "== %s%s\n", stage, r.expects(stage, ""))
}

func (r *report) end(stage string, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take(stage, "", took)
	line := fmt.Sprintf("%-20s %8s%s", stage, seconds(took), r.expects(stage, ""))
	r.stages = append(r.stages, line)
	fmt.Fprintf(r.out, "== %s\n", line)
}

func (r *report) take(stage, label string, took time.Duration) {
	if r.took == nil {
		r.took = times{}
	}
	r.took[timed{r.command, stage, label}] = took
}

// expects returns the expected time of a stage or a package, "" if it is unknown.
func (r *report) expects(stage, label string) string {
	usual, known := r.expected[timed{r.command, stage, label}]
	if !known {
		return ""
	}
	return fmt.Sprintf("  (expected %s)", seconds(usual))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%d s", int(d.Round(time.Second).Seconds())) }

// over prints the line of a package that has ended. For each failed test it prints the output and the command to repeat it. For a package without a failed test
// it prints how the process died.
func (r stageReport) over(j job, pkg string, all *testjson.Execution, c *crash) (red bool) {
	p := all.Package(pkg)
	r.mu.Lock()
	defer r.mu.Unlock()
	label := j.label(pkg)
	failed := failures(pkg, p)
	r.packages++
	r.passed, r.failed, r.skipped = r.passed+len(p.Passed), r.failed+len(failed), r.skipped+len(p.Skipped)
	r.take(r.stage, label, p.Elapsed())
	verdict := "ok  "
	if p.Result() == testjson.ActionFail {
		verdict = "FAIL"
	}
	tests := fmt.Sprintf("%d tests", p.Total)
	if len(p.Skipped) > 0 {
		tests += fmt.Sprintf(", %d skipped", len(p.Skipped))
	}
	fmt.Fprintf(r.out, "%s  %-44s %8s  %s%s\n", verdict, label, seconds(p.Elapsed()), tests, r.expects(r.stage, label))
	for _, test := range failed {
		name := test.Test.Name()
		said := outputOf(p, test)
		if name == "" { // it may not compile
			said = strings.TrimRight(strings.Join(all.Errors(), "")+said+"\n"+c.String(), "\n")
		}
		fmt.Fprintf(r.out, "\n--- FAIL: %s\n%s\nto see it again: %s\n\n", strings.TrimSpace(label+" "+name), said, j.again(pkg, name))
	}
	return verdict == "FAIL" && len(failed) > 0
}

// failures returns the failed tests without failed subtests; a test without a name stands for the package itself.
func failures(pkg string, p *testjson.Package) []testjson.TestCase {
	failed := testjson.FilterFailedUnique(p.Failed)
	if p.TestMainFailed() {
		failed = append(failed, testjson.TestCase{Package: pkg})
	}
	return failed
}

// outputOf returns the output of a test, without the lines that only report its start.
func outputOf(p *testjson.Package, test testjson.TestCase) string {
	var b strings.Builder
	for _, line := range p.OutputLines(test) {
		switch trimmed := strings.TrimSpace(line); {
		case strings.HasPrefix(trimmed, "=== "), strings.HasPrefix(trimmed, "--- PASS"), strings.HasPrefix(trimmed, "--- SKIP"):
		default:
			b.WriteString(line)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// broken prints the output of go test for a job without a failed test, for example a compile error.
func (r stageReport) broken(j job, packages, said []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed++
	fmt.Fprintf(r.out, "FAIL  %s\n%s\n", strings.Join(packages, " "), strings.TrimRight(strings.Join(said, ""), "\n"))
	if len(packages) == 1 {
		fmt.Fprintf(r.out, "to see it again: %s\n", j.again(packages[0], ""))
	}
}

// sum prints the time of each stage and the number of tests.
func (r *report) sum(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take("", "", took)
	fmt.Fprintf(r.out, "\n%s\n%-20s %8s%s in %d packages\n", strings.Join(r.stages, "\n"), "make "+r.command, seconds(took), r.expects("", ""), r.packages)
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
}

// record stores the times of this run as the expected times. Stages that did not run keep their times.
func (r *report) record() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.expected.with(r.took).write()
}
