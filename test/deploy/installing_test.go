package deploy

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sluicedeploy "sluice.dev/sluice/deploy"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// section returns the text under a heading of docs/installing.md, up to the next heading.
func section(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(world.Root(), "docs", "installing.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, part, ok := strings.Cut(string(text), "# "+heading+"\n")
	if !ok {
		t.Fatalf("the page has no heading %q", heading)
	}
	part, _, _ = strings.Cut(part, "\n##")
	return part
}

// The block of the page connects all components to another NATS and leaves out the single server. It changes no other
// part of the base.
func TestTheKustomizationOfThePageLeadsToAnotherNATS(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile("(?s)```yaml\n(.*?)\n```").FindStringSubmatch(section(t, "NATS of three"))
	if block == nil {
		t.Fatal("the page shows no kustomization")
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "deploy"), os.DirFS(base())); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(block[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	binary, err := controlplane.Binary() // kubectl is in the same directory
	if err != nil {
		t.Fatal(err)
	}
	built, err := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(binary), "kubectl"), "kustomize", dir).Output()
	if err != nil {
		t.Fatal(err)
	}

	printed, err := sluicedeploy.Manifests(api.DefaultInstallation())
	if err != nil {
		t.Fatal(err)
	}
	want := world.ReadManifests(t, printed)
	left, led := 0, 0
	for key, object := range want {
		if strings.HasSuffix(key, "/sluice-system/sluice-nats") {
			delete(want, key)
			left++
		} else if object["kind"] == "Deployment" {
			lead(t, object)
			led++
		}
	}
	if left != 3 || led != 3 {
		t.Errorf("%d objects of the single server and %d parts were found, want 3 and 3", left, led)
	}
	words := cmp.Comparer(func(a, b string) bool { return slices.Equal(strings.Fields(a), strings.Fields(b)) })
	if diff := cmp.Diff(want, world.ReadManifests(t, built), words); diff != "" {
		t.Errorf("(-wanted +built):\n%s", diff)
	}
}

// lead sets the image and the NATS of the page in the container of a Deployment.
func lead(t *testing.T, deployment map[string]any) {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(deployment, "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatalf("the containers of %v: %v", deployment["metadata"], err)
	}
	c := containers[0].(map[string]any)
	c["image"], c["args"] = "IMAGE:v1", append(c["args"].([]any), "--nats-replicas=3")
	for _, e := range c["env"].([]any) {
		if variable := e.(map[string]any); variable["name"] == "NATS_URL" {
			variable["value"] = "nats://nats.nats:4222"
		}
	}
	if err := unstructured.SetNestedSlice(deployment, containers, "spec", "template", "spec", "containers"); err != nil {
		t.Fatal(err)
	}
}

// programs are the programs in the table of the page.
var programs = []string{"watcher", "executor", "analyzer", "sluice run"}

// helps returns the help texts of the programs, without any of the variables that they read.
var helps = sync.OnceValues(func() (map[string]string, error) {
	dir, err := os.MkdirTemp("", "sluice-deploy-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", dir, "./cmd/watcher", "./cmd/executor", "./cmd/analyzer", "./cmd/sluice")
	build.Dir = world.Root()
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	help := map[string]string{}
	for _, program := range programs {
		words := append(strings.Fields(program), "--help")
		c := exec.Command(filepath.Join(dir, words[0]), words[1:]...)
		c.Env = []string{"HOME=" + dir}
		out, err := c.CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%s --help: %w\n%s", program, err, out)
		}
		help[program] = string(out)
	}
	return help, nil
})

// elsewhere are flags of `sluice run` that all commands of sluice accept. Another page describes them.
var elsewhere = []string{"--help", "--namespace", "--color", "--no-color"}

// flags returns the flags in a help text, with their descriptions.
func flags(help string) map[string]string {
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[\w-]+) +(.*)$`).FindAllStringSubmatch(help, -1) {
		if !slices.Contains(elsewhere, m[1]) {
			all[m[1]] = m[2]
		}
	}
	return all
}

// row is the entry of a flag in a table.
type row struct {
	literal  string   // its default, "" for none
	mentions []string // texts that the help must mention: variables, and a default in words
}

// rows returns the rows of a table, by program and flag. If a meaning does not begin with a program, the row is for all
// programs.
func rows(t *testing.T, table string, all []string) map[string]map[string]row {
	t.Helper()
	list := map[string]map[string]row{}
	for _, program := range programs {
		list[program] = map[string]row{}
	}
	code := regexp.MustCompile("`([^`]*)`")
	for _, m := range regexp.MustCompile("(?m)^\\| (`--.*?) \\| (.*?) ?\\| (.*) \\|$").FindAllStringSubmatch(table, -1) {
		names, cell, takers := code.FindAllStringSubmatch(m[1], -1), m[2], all
		if who := regexp.MustCompile("^(`[a-z ]+`(, `[a-z ]+`)*): ").FindStringSubmatch(m[3]); who != nil {
			takers = nil
			for _, program := range code.FindAllStringSubmatch(who[1], -1) {
				takers = append(takers, program[1])
			}
		}
		var literals, mentions []string
		for _, word := range code.FindAllStringSubmatch(cell, -1) {
			if strings.HasPrefix(word[1], "$") || strings.HasPrefix(word[1], "~") {
				mentions = append(mentions, word[1])
			} else {
				literals = append(literals, word[1])
			}
		}
		switch {
		case strings.Contains(cell, "`"):
		case cell == "false" || cell == "true" || regexp.MustCompile(`^\d\w*$`).MatchString(cell):
			literals = append(literals, cell)
		case cell != "":
			mentions = append(mentions, cell)
		}
		if len(literals) > 0 && len(literals) != len(names) {
			t.Fatalf("%d flags have %d defaults in the row %s", len(names), len(literals), m[0])
		}
		for i, name := range names {
			r := row{}
			if len(literals) > 0 {
				r.literal = literals[i]
			}
			if i == 0 {
				r.mentions = mentions
			}
			for _, program := range takers {
				if _, twice := list[program][name[1]]; twice {
					t.Errorf("two rows are about %s of %s", name[1], program)
				}
				list[program][name[1]] = r
			}
		}
	}
	return list
}

// value is a default as both the page and a program may write it.
func value(text string) string {
	text = strings.Trim(text, `"[]`)
	if d, err := time.ParseDuration(text); err == nil && text != "0" {
		return d.String()
	}
	if text == "false" {
		return "" // the help text does not show this default
	}
	return text
}

func TestTheTableOfFlagsIsWhatTheProgramsTake(t *testing.T) {
	t.Parallel()
	help, err := helps()
	if err != nil {
		t.Fatal(err)
	}
	page := rows(t, section(t, "Flags"), programs)
	for program, webhook := range rows(t, section(t, "Kubernetes 1.30 to 1.35"), []string{"watcher", "sluice run"}) {
		maps.Copy(page[program], webhook)
	}
	for _, program := range programs {
		taken := flags(help[program])
		if len(taken) < 20 || len(page[program]) < 20 {
			t.Fatalf("%s takes %d flags, and the page has %d", program, len(taken), len(page[program]))
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(page[program])), slices.Sorted(maps.Keys(taken))); diff != "" {
			t.Errorf("flags of %s (-page +program):\n%s", program, diff)
		}
		for name, r := range page[program] {
			says, literal := taken[name], ""
			if m := regexp.MustCompile(` \(default ([^()]*)\)$`).FindStringSubmatch(says); m != nil {
				literal = m[1]
			}
			if diff := cmp.Diff(value(r.literal), value(literal)); diff != "" {
				t.Errorf("the default of %s of %s (-page +program):\n%s", name, program, diff)
			}
			for _, word := range r.mentions {
				if !strings.Contains(says, word) {
					t.Errorf("the page says %q of the default of %s, and %s --help: %s", word, name, program, says)
				}
			}
		}
	}
}
