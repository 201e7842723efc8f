package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the transcript again, here and in docs/demo.md, and draw the pictures in docs/images")

// variablePart is a part of a transcript that differs in each run, and what stands for it.
type variablePart struct {
	pattern *regexp.Regexp
	stands  string
}

// These parts differ in each run. The transcript has the placeholders instead.
var variable = []variablePart{
	{regexp.MustCompile(`(?m) [ \d]{2}\d\.\d\d s$`), "   N.NN s"},
	{regexp.MustCompile(` \d+\.\d\d s\b`), " N.NN s"},
	{regexp.MustCompile(`\d\d:\d\d:\d\d`), "HH:MM:SS"},
	{regexp.MustCompile(`(Ready|StepPaused for)( +)(?:\d+[hms])+`), "${1}${2}Ns"},
	{regexp.MustCompile(`(ReplicaSet workload-demo(?:-canary)?-)[a-z0-9]+`), "${1}HASH"},
	// The hash of a pod template is a decimal number of 32 bits in other characters: 1 to 10 of them.
	{regexp.MustCompile(`( workload-demo(?:-canary)?-)[a-z0-9]{1,10}-[a-z0-9]{5}\b`), "${1}HASH-XXXXX"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:PORT"},
	{regexp.MustCompile(`hash [0-9a-f]{12}`), "hash HASH"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dTHH:MM:SSZ`), "YYYY-MM-DDTHH:MM:SSZ"},
	{regexp.MustCompile(`(Warning  AnalysisFailed) +\S+ +(\S+)`), "${1}  Ns  ${2}"},
	{regexp.MustCompile(`(The value|last value) [\d.]+`), "${1} N.NN"},
	{regexp.MustCompile(`\d+( of )\d+( requests), \d+ with`), "N${1}N${2}, N with"},
	{regexp.MustCompile(`answered \d+ requests, \d+( with an error. Users hit: )\d+`), "answered N requests, N${1}N"},
	{regexp.MustCompile(`(Prometheus: )\d+`), "${1}N"},
	{regexp.MustCompile(`\d+ requests were sent`), "N requests were sent"},
	// The number of measurements until the step failed depends on the time of each measurement.
	{regexp.MustCompile(`(?s)(\n  Release +)Running\n.*?\n\n==`), "${1}Running\n    (as above, for errors-against-stable)\n\n=="},
	// The width of a chart's labels depends on its values.
	{regexp.MustCompile(`(?m)^ +[\d.]* *\|`), "             |"},
	{regexp.MustCompile(`(?m)^ +HH:MM:SS$`), "              HH:MM:SS"},
	{regexp.MustCompile(`(?m)^ +(limit 0.99: |x failed)`), "              ${1}"},
}

const (
	page      = "docs/demo.md"
	recording = "dev/demo/recording.txt" // a complete run, with the times and numbers that the pictures show
	openMark  = "<!-- transcript -->\n```text\n"
	closeMark = "```\n<!-- /transcript -->"
)

// playDemo builds sluice, runs a demo, and returns what it shows.
func playDemo(t *testing.T, run func(context.Context, io.Writer, bool) error) string {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs control planes, which -short leaves out")
	}
	t.Chdir("../..")
	build := exec.Command("go", "build", "-o", "bin/", "./cmd/sluice")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build sluice: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var out bytes.Buffer
	if err := run(ctx, &out, false); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return out.String()
}

// docs/demo.md shows exactly the output of the demo, and the pictures show the output of one run.
func TestTheTranscriptIsWhatTheDemoPrints(t *testing.T) {
	shown := playDemo(t, run)
	got := withoutVariables(shown)
	if *update {
		rewrite(t, shown)
	}
	golden := filepath.Join("dev", "demo", "transcript.golden")
	if diff := cmp.Diff(read(t, golden), got); diff != "" {
		t.Errorf("transcript (-golden +got); -update accepts it:\n%s", diff)
	}
	if !strings.Contains(read(t, page), openMark+got+closeMark) {
		t.Error("docs/demo.md shows another transcript; -update mends it")
	}
	if diff := cmp.Diff(got, withoutVariables(read(t, recording))); diff != "" {
		t.Errorf("the pictures are drawn from a recording of another transcript; -update records this run (-this run +recording):\n%s", diff)
	}
}

func withoutVariables(transcript string) string { return replaceVariables(transcript, variable) }

func replaceVariables(transcript string, list []variablePart) string {
	for _, v := range list {
		transcript = v.pattern.ReplaceAllString(transcript, v.stands)
	}
	return transcript
}

// wantReplaced checks what a function makes of lines that a run has printed.
func wantReplaced(t *testing.T, replace func(string) string, printed map[string]string) {
	t.Helper()
	for line, want := range printed {
		if got := replace(line); got != want {
			t.Errorf("%q became %q, want %q", line, got, want)
		}
	}
}

// A slow machine and a short hash change nothing in the transcript.
func TestTheTranscriptHasNothingThatVaries(t *testing.T) {
	wantReplaced(t, withoutVariables, map[string]string{
		"      + workload-demo-canary-686c569-8gm5w  Ready  2m5s":       "      + workload-demo-canary-HASH-XXXXX  Ready  Ns",
		"      + workload-demo-6d5f7c8b99-8gm5w  Ready  9s":             "      + workload-demo-HASH-XXXXX  Ready  Ns",
		"  canary  Deployment workload-demo-canary  1/1 ready":          "  canary  Deployment workload-demo-canary  1/1 ready",
		"back after   5.12 s\nback after  61.20 s\nback after 104.00 s": "back after   N.NN s\nback after   N.NN s\nback after   N.NN s",
		"at most 3.21 s after, or 13.21 s after":                        "at most N.NN s after, or N.NN s after",
	})
}

// rewrite accepts the output of a run. It keeps the recording of an earlier run if the transcript is unchanged, so that the pictures change only with the
// transcript.
func rewrite(t *testing.T, printed string) {
	t.Helper()
	transcript := withoutVariables(printed)
	if withoutVariables(read(t, recording)) != transcript {
		save(t, recording, printed)
	}
	save(t, filepath.Join("dev", "demo", "transcript.golden"), transcript)
	before, rest, ok := strings.Cut(read(t, page), "<!-- transcript -->\n")
	_, after, ok2 := strings.Cut(rest, "<!-- /transcript -->")
	if !ok || !ok2 {
		t.Fatal("docs/demo.md has no place for the transcript")
	}
	save(t, page, before+openMark+transcript+closeMark+after)
	if out, err := exec.Command("go", "run", "./dev/demo/picture").CombinedOutput(); err != nil {
		t.Fatalf("draw the pictures: %v\n%s", err, out)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func save(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
