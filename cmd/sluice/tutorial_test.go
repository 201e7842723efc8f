package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/test/controlplane"
)

const tutorialPage = "../../docs/your-gateway-in-fifteen-minutes.md"

// tutorial follows the page as a reader would: it writes the files of the page, runs its commands, and compares their output.
type tutorial struct {
	*testing.T
	dir string
	env []string
}

// TestTheTutorial follows docs/your-gateway-in-fifteen-minutes.md to the end, where Sluice carries out a release with the script of the page.
func TestTheTutorial(t *testing.T) {
	t.Parallel()
	cluster := installed(t)
	run := startRun(t, cluster)
	binary, err := controlplane.Binary() // kubectl is built in the same directory
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(tutorialPage)
	if err != nil {
		t.Fatal(err)
	}
	reader := &tutorial{T: t, dir: t.TempDir(), env: append(os.Environ(),
		"KUBECONFIG="+cluster.Kubeconfig, "PATH="+os.Getenv("PATH")+string(filepath.ListSeparator)+filepath.Dir(binary))}
	reader.follow(string(text))
	run.stop(t)
	planned, err := os.ReadFile(filepath.Join(reader.dir, "plan.txt"))
	if err != nil {
		t.Fatal(err)
	}
	plan := actions(regexp.MustCompile(`(?m)^does +(.+)$`), string(planned))
	done := actions(regexp.MustCompile(`msg=act .*action="([^"]+)"`), run.log.String())
	if diff := cmp.Diff(plan, done); diff != "" || len(plan) == 0 {
		t.Errorf("what was planned is not what was done (-planned +done):\n%s", diff)
	}
}

// actions returns the actions of a release from its log or its plan. It omits actions that only a cluster needs: admission holds the workload, and pods get
// labels. It replaces the hash of a canary, which only a cluster knows.
func actions(line *regexp.Regexp, text string) []string {
	var all []string
	for _, m := range line.FindAllStringSubmatch(text, -1) {
		switch action := regexp.MustCompile(`selecting \w+`).ReplaceAllString(m[1], "selecting canary"); {
		case strings.HasPrefix(action, "hold "), strings.HasPrefix(action, "label pods "), strings.HasPrefix(action, "add finalizer"), strings.HasPrefix(action, "adopt "):
		default:
			all = append(all, action)
		}
	}
	return all
}

var block = regexp.MustCompile("(?s)(?:<!-- (file|fails)(?:: (\\S+))? -->\n)?```(\\w+)\n(.*?)```\n")

// follow processes the code blocks of a page. Each block is a file, commands, or their output.
func (r *tutorial) follow(page string) {
	said, typed := "", 0
	for _, m := range block.FindAllStringSubmatch(page, -1) {
		mark, file, language, text := m[1], m[2], m[3], m[4]
		switch {
		case mark == "file":
			r.write(file, text)
		case language == "sh":
			said = r.shell(text, mark == "fails")
			typed++
		case language == "text":
			if diff := cmp.Diff(text, said); diff != "" {
				r.Errorf("the page shows other output (-page +now):\n%s", diff)
			}
		default:
			r.Fatalf("a block of %s is neither a file nor commands nor output:\n%s", language, text)
		}
		if r.Failed() {
			return
		}
	}
	if typed == 0 {
		r.Error("the page has no commands")
	}
}

func (r *tutorial) write(file, text string) {
	r.Helper()
	file = filepath.Join(r.dir, file)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
}

// shell runs commands, and returns their output.
func (r *tutorial) shell(commands string, fails bool) string {
	r.Helper()
	var out, errs strings.Builder
	c := exec.CommandContext(r.Context(), "bash", "-e", "-o", "pipefail", "-c", commands)
	c.Dir, c.Env, c.Stdout, c.Stderr = r.dir, r.env, &out, &errs
	err := c.Run()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) || (err != nil) != fails {
		r.Fatalf("%s\n%v\n%s%s", commands, err, out.String(), errs.String())
	}
	return out.String()
}
