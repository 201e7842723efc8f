package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the transcript anew, here and in the README")

// What differs from run to run, and what stands for it in the transcript.
var variable = []struct {
	pattern *regexp.Regexp
	stands  string
}{
	{regexp.MustCompile(`\d+\.\d\d s\b`), "N.NN s"},
	{regexp.MustCompile(`\d\d:\d\d:\d\d`), "HH:MM:SS"},
	{regexp.MustCompile(`(Ready|StepPaused for)( +)\d+s`), "${1}${2}Ns"},
	{regexp.MustCompile(`(ReplicaSet workload-demo(?:-canary)?-)[a-z0-9]+`), "${1}HASH"},
	{regexp.MustCompile(`( workload-demo(?:-canary)?-)[a-z0-9]{8,10}-[a-z0-9]{5}\b`), "${1}HASH-XXXXX"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:PORT"},
	{regexp.MustCompile(`hash [0-9a-f]{12}`), "hash HASH"},
}

const (
	openMark  = "<!-- transcript -->\n```text\n"
	closeMark = "```\n<!-- /transcript -->"
)

// The README shows just what the demo prints.
func TestTheTranscriptIsWhatTheDemoPrints(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	t.Chdir("../..")
	build := exec.Command("go", "build", "-o", "bin/", "./cmd/sluice")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build sluice: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var out bytes.Buffer
	if err := run(ctx, &out, false); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	got := out.String()
	for _, v := range variable {
		got = v.pattern.ReplaceAllString(got, v.stands)
	}
	if *update {
		rewrite(t, got)
	}
	golden := filepath.Join("dev", "demo", "transcript.golden")
	if diff := cmp.Diff(read(t, golden), got); diff != "" {
		t.Errorf("transcript (-golden +got); -update accepts it:\n%s", diff)
	}
	if !strings.Contains(read(t, "README.md"), openMark+got+closeMark) {
		t.Error("the README shows another transcript; -update mends it")
	}
}

func rewrite(t *testing.T, transcript string) {
	t.Helper()
	save(t, filepath.Join("dev", "demo", "transcript.golden"), transcript)
	readme := read(t, "README.md")
	before, rest, ok := strings.Cut(readme, "<!-- transcript -->\n")
	_, after, ok2 := strings.Cut(rest, "<!-- /transcript -->")
	if !ok || !ok2 {
		t.Fatal("the README has no place for the transcript")
	}
	save(t, "README.md", before+openMark+transcript+closeMark+after)
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
