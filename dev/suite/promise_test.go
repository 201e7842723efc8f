package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// One of the two commands runs each test of the tree.
func TestEveryTestIsPlayed(t *testing.T) {
	t.Chdir("../..")
	quick, rest := mustPlan(t, "test"), mustPlan(t, "verify")
	all, err := testFuncs()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no test was found")
	}
	for _, f := range all {
		if !quick.plays(f) && !rest.plays(f) {
			t.Errorf("neither make test nor make verify plays %s; add its package to dev/suite/table.go", f)
		}
	}
}

func TestWhatRunsAtOnceIsRaced(t *testing.T) {
	t.Chdir("../..")
	list, err := concurrentPackages("pkg", "cmd")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Fatal("no package starts a goroutine")
	}
	raced := job{packages: append(concurrent[:len(concurrent):len(concurrent)], clients...)}
	for _, pkg := range list {
		if !raced.plays(testFunc{pkg: pkg, name: "TestX"}) {
			t.Errorf("%s starts goroutines or shares memory, and the race detector does not watch it; add it to concurrent in dev/suite/table.go", pkg)
		}
	}
}

func TestEveryPromiseNamesTestsThatMakeTestPlays(t *testing.T) {
	t.Chdir("../..")
	list, err := readPromises()
	if err != nil {
		t.Fatal(err)
	}
	all, err := testFuncs()
	if err != nil {
		t.Fatal(err)
	}
	quick := mustPlan(t, "test")
	for _, p := range list {
		for _, test := range p.tests {
			name, _, _ := strings.Cut(test.test, "/")
			n := slices.IndexFunc(all, func(f testFunc) bool { return f.pkg == test.pkg && f.name == name })
			switch {
			case n < 0:
				t.Errorf("%q names %s %s, which does not exist", p.text, test.pkg, name)
			case !quick.plays(all[n]) && test.pkg != "test/live": // real gateways take too long to build for make test
				t.Errorf("%q names %s, which make test does not play", p.text, all[n])
			}
		}
	}
}

// Each section of the pages has a row in the table, or is in the list of sections without a promise.
func TestEverySectionOfThePagesHasAPromise(t *testing.T) {
	t.Chdir("../..")
	list, err := readPromises()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, p := range list {
		known[p.section] = true
	}
	for _, section := range unpromised(t) {
		if known[section] {
			t.Errorf("%s has a row and is listed as a section without a promise", section)
		}
		known[section] = true
	}
	for _, section := range sections(t) {
		if !known[section] {
			t.Errorf("%s has no row in %s; add one, or list it under \"Sections without a promise\"", section, promisesFile)
		}
		delete(known, section)
	}
	for section := range known {
		if strings.Contains(section, "#") {
			t.Errorf("%s names %s, which is no section of the pages", promisesFile, section)
		}
	}
}

// unpromised returns the links of the list of sections without a promise.
func unpromised(t *testing.T) (links []string) {
	t.Helper()
	_, part, _ := strings.Cut(readPage(t, promisesFile), "\n### Sections without a promise\n")
	part, _, _ = strings.Cut(part, "\n## ")
	for line := range strings.Lines(part) {
		if link := linked.FindStringSubmatch(line); link != nil && strings.HasPrefix(line, "- ") {
			links = append(links, link[1])
		}
	}
	return links
}

// aside are pages without promises to users: the test plan, the measurements, and a table that a test writes.
var aside = []string{"docs/testing.md", "docs/benchmarks.md", "docs/test-matrix.md"}

// sections returns the links, relative to docs/, to all headings of the second and third level.
func sections(t *testing.T) (links []string) {
	t.Helper()
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "README.md") {
		if slices.Contains(aside, page) {
			continue
		}
		text := readPage(t, page)
		link, err := filepath.Rel("docs", page)
		if err != nil {
			t.Fatal(err)
		}
		for _, anchor := range anchors(text) {
			links = append(links, link+"#"+anchor)
		}
	}
	return links
}

// anchors returns GitHub's anchors for the headings of a page: lower case, without punctuation, spaces as hyphens.
func anchors(text string) (list []string) {
	dropped := regexp.MustCompile(`[^\p{L}\p{N}\-_ ]`)
	code := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		title, second := strings.CutPrefix(line, "## ")
		if !second {
			title, second = strings.CutPrefix(line, "### ")
		}
		if !second || code {
			continue
		}
		title = regexp.MustCompile(`\]\([^)]*\)`).ReplaceAllString(title, "]")
		list = append(list, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(title), ""), " ", "-"))
	}
	return list
}

func TestAnchorsAreThoseOfThePages(t *testing.T) {
	t.Parallel()
	text := "# Title\n## `sluice approve`, and more\n```sh\n## no heading\n```\n### [A link](x.md#y): two words\n"
	if diff := cmp.Diff([]string{"sluice-approve-and-more", "a-link-two-words"}, anchors(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestATestIsSelectedAlone(t *testing.T) {
	t.Parallel()
	list := []promise{
		{tests: []named{{"pkg/a", "TestB"}, {"pkg/a", "TestA/one_(1)"}}},
		{tests: []named{{"pkg/a", "TestB/sub"}, {"pkg/b", "TestC"}}},
	}
	if diff := cmp.Diff(`^TestA$/^one_\(1\)$|^TestB$`, anyOf(promised(list, "pkg/a"))); diff != "" {
		t.Errorf("the pattern of pkg/a (-want +got):\n%s", diff)
	}
}

func mustPlan(t *testing.T, command string) plan {
	t.Helper()
	p, err := planOf(command)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
