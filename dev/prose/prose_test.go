package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAMarkerIsFoundInASentence(t *testing.T) {
	const opener = "What ... as a subject"
	for text, want := range map[string][]string{
		"The executor deletes leftover objects.":                         nil,
		"What is left of a Rollout is swept.":                            {opener},
		"What no release needs wakes no process.":                        {opener},
		"Who may decide is a matter of rights.":                          {opener},
		"Whoever starts a goroutine waits for it.":                       {opener},
		"Whatever comes first wins. Then it ends.":                       {opener},
		"what a watcher saw":                                             {opener},
		"**What** is left is swept.":                                     {opener},
		"It ends. What follows is quiet.":                                {opener},
		"What is a release?":                                             nil,
		"\"Who may decide?\"":                                            nil,
		"Whatnot is not a marker.":                                       nil,
		"The status says what is missing.":                               {`"what is ..."`},
		"It tells what changed.":                                         nil,
		"A pause for whoever decides.":                                   {`"whoever"`},
		"It goes on whatever happens, and wakes nobody.":                 {`"whatever"`, `"nobody"`},
		"The canary runs beside the stable version.":                     {`"beside"`},
		"Besides, the canary has its own Service.":                       nil,
		"A node without a heartbeat is none that runs pods.":             {`"is none"`},
		"It is empty when there is none.":                                {`"is none"`},
		"None of the pods is ready.":                                     nil,
		"The name by which a process holds a lease.":                     {`"by which"`},
		"The step is reached anew.":                                      {`"anew"`},
		"Pods of which one is ready.":                                    {`"of which"`},
		"The hash is that of the template, the labels those of the pod.": {`"that of"`, `"that of"`},
		"It thinks that often.":                                          nil,
		"It keeps the step lest it start over.":                          {`"lest", "save", "thereof"`},
		"Save the file, and write all of it.":                            nil,
		"The field `nobody` is set by `whoever decides`.":                nil,
	} {
		p := &passage{kind: page}
		p.add(text, 1)
		var got []string
		for _, s := range p.sentences() {
			for _, m := range matchMarkers(s) {
				got = append(got, m.marker.name)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestASentenceEndsAtItsFullStop(t *testing.T) {
	for text, want := range map[string][]int{
		"One two three. Four five.":                      {3, 2},
		"See e.g. the guide. It helps.":                  {4, 2},
		"It is 1.5 seconds, v1.2.3 - or more ... later.": {8},
		"Is it? (It is.) Yes!":                           {2, 2, 1},
		"`kubectl get rollouts -A` lists *all* of them":  {5},
		"It ends.\nlowerCase starts a sentence.":         {2, 4},
	} {
		p := &passage{kind: page}
		p.add(text, 1)
		var got []int
		for _, s := range p.sentences() {
			got = append(got, s.length())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestAPageLeavesOutCodeAndTargets(t *testing.T) {
	const text = "# Who decides\n" +
		"\n" +
		"A [link](nobody.md) to `nobody`,\n" +
		"and nobody reads it.\n" +
		"\n" +
		"```sh\n" +
		"nobody\n" +
		"```\n" +
		"<!-- nobody -->\n" +
		"- one item\n" +
		"- what is next ![nobody](nobody.svg)\n" +
		"\n" +
		"| what it does | what is `a \\| nobody` |\n" +
		"|---|---|\n" +
		"| a \\| who sees it. | Who sees it is known. |\n" +
		"\n" +
		"## Is this a question?\n" +
		"## Roll back a release\n"
	want := []string{
		"1: heading",
		"4: \"nobody\"",
		"11: What ... as a subject",
		"13: \"what is ...\"",
		"15: What ... as a subject",
		"17: heading",
	}
	if diff := cmp.Diff(want, findIn(t, "docs/page.md", text)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAFileOfGoHasCommentsAndMessages(t *testing.T) {
	const text = `// Package p is beside another.
//
//	nobody reads code
//
//   - one item
//   - who reads lists
package p

import "fmt"

//go:generate nobody
// +kubebuilder:whatever

// Run does a thing that needs a long sentence of many words, so many that a reader who comes to its end has lost the start of it.
func Run() error {
	// This comment documents no exported name, so that its length is free: it may have as many words as it likes, and more than the limit.
	return fmt.Errorf("the step of %q waits for whoever " +
		"decides: nobody did" + fmt.Sprint("name the one by which it is known"))
}

var command = struct {
	Short, Example string
	Tag int ` + "`json:\"nobody is by this name\"`" + `
}{Short: "Show what is there, anew", Example: "nobody reads this as prose"}

var query = "sum by (nobody) (a / b) > 2 and on whoever max(c{a=1}) or d"
`
	want := []string{
		"1: \"beside\"",
		"6: What ... as a subject",
		"14: 28 words",
		"17: \"whoever\"",
		"18: \"nobody\"",
		"18: \"by which\"",
		"24: \"what is ...\"",
		"24: \"anew\"",
	}
	if diff := cmp.Diff(want, findIn(t, "pkg/p/p.go", text)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := findIn(t, "pkg/p/p.go", "// Code generated by nobody. DO NOT EDIT.\n\n"+text); got != nil {
		t.Errorf("a generated file has %v", got)
	}
	// The literals of a test are data, and no other package uses its names.
	if diff := cmp.Diff(want[:2], findIn(t, "pkg/p/p_test.go", text)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAnAreaFailsAboveItsLimits(t *testing.T) {
	reports := func(markers, headings, long int) []*report {
		t := &total{area: "docs", words: 1000, sentences: 100, markers: markers, headings: headings, long: long}
		return []*report{{file: "docs/page.md", areas: map[string]*total{"docs": t}}}
	}
	var limit int
	for _, a := range areas {
		if a.name == "docs" {
			limit = a.long
		}
	}
	if broken := brokenLimits(sumAreas(reports(markerLimit, 0, limit))); len(broken) != 0 {
		t.Errorf("at the limits: %v", broken)
	}
	if broken := brokenLimits(sumAreas(reports(markerLimit+1, 1, limit+1))); len(broken) != 3 {
		t.Errorf("above the limits: %v", broken)
	}
}

// findIn returns the line and the name of each finding.
func findIn(t *testing.T, file, text string) []string {
	t.Helper()
	r, err := newReport(file, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	printFindings(&out, []*report{r})
	var found []string
	for line := range strings.Lines(out.String()) {
		part := strings.SplitN(strings.TrimPrefix(line, file+":"), ": ", 3)
		found = append(found, part[0]+": "+part[1])
	}
	return found
}
