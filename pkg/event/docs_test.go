package event_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/rollout"
)

var update = flag.Bool("update", false, "write docs/events.md anew")

const page = "../../docs/events.md"

// The documentation page contains the texts of the code word by word. `go test ./pkg/event -run Documented -update` writes it.
func TestTheVocabularyIsDocumented(t *testing.T) {
	t.Parallel()
	have, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := string(have)
	for name, text := range map[string]string{
		"vocabulary":       vocabularyTable(event.RolloutVocabulary()),
		"fleet vocabulary": vocabularyTable(event.FleetVocabulary()),
		"example":          "```\n" + message(t, told(t, threeSteps(), 43)) + "```\n",
		"fleet example":    "```\n" + message(t, fleetTold(t, aFleetRelease(), 43)) + "```\n",
		"schema":           "```json\n" + schemaFile(t, "release") + "```\n",
		"fleet schema":     "```json\n" + schemaFile(t, "fleet") + "```\n",
		"decided":          "```json\n" + schemaFile(t, "decided") + "```\n",
		"measured":         "```json\n" + schemaFile(t, "measured") + "```\n",
		"verdict":          "```json\n" + schemaFile(t, "verdict") + "```\n",
	} {
		want = fill(t, want, name, text)
	}
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(have)); diff != "" {
		t.Errorf("docs/events.md is out of date, run this test with -update (-want +got):\n%s", diff)
	}
}

// fill replaces the text between the two marks of this name.
func fill(t *testing.T, page, name, text string) string {
	t.Helper()
	before, rest, ok := strings.Cut(page, "<!-- begin "+name+" -->\n")
	_, after, ended := strings.Cut(rest, "<!-- end "+name+" -->")
	if !ok || !ended {
		t.Fatalf("docs/events.md has no place for %s", name)
	}
	return before + "<!-- begin " + name + " -->\n" + text + "<!-- end " + name + " -->" + after
}

func vocabularyTable(kinds []event.Kind) string {
	var b strings.Builder
	b.WriteString("| type | when | cause | data that is always there |\n|---|---|---|---|\n")
	for _, k := range kinds {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.Type(), k.When, k.Cause, strings.Join(k.RequiredFields(), ", "))
	}
	return b.String()
}

// threeSteps is the release of the example.
func threeSteps() rollout.Seen {
	seen := aRelease()
	seen.Spec.Steps = append(seen.Spec.Steps, rollout.Step{})
	return seen
}

// message returns an example with its headers in order.
func message(t *testing.T, e event.Event) string {
	t.Helper()
	header, body, err := event.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for name, values := range header {
		lines = append(lines, name+": "+values[0]+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "") + "\n" + string(body) + "\n"
}

func schemaFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("schema/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
