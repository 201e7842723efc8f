package main

import (
	"fmt"
	"slices"
	"strings"
)

// scene selects one part of the demo for a picture: the heading, and some of the lines below it.
type scene struct {
	heading string // the beginning of the heading
	cuts    []cut
}

// cut is a range of lines, both included. The beginning of a line, without its indent, identifies it.
type cut struct{ from, to string }

// excerpt selects a canary in the middle of its release, and a bad version that its metrics stop.
func excerpt() []scene {
	return []scene{
		{"Approve step 1", []cut{
			{"$ sluice approve", "$ sluice get rollout"},
			{"Steps", "stable  Deployment"},
			{"canary  Deployment", "http[0]"},
		}},
		{"A bad version", []cut{{"$ kubectl set image", "Counted at the servers"}}},
	}
}

// kind is the origin of a row, which determines its colours.
type kind int

const (
	kindOutput  kind = iota // of a command without colours, or of the demo itself
	kindHeading             // of a part of the demo
	kindCommand             // after a prompt
	kindRelease             // of sluice get rollout, which has colours on a terminal
	kindLeftOut             // replaces lines that the picture omits
)

// row is one line of the demo. text lacks the indent of two columns that the demo gives to output.
type row struct {
	kind kind
	text string
}

// excerptRows selects the scenes from the output of the demo.
func excerptRows(printed string, scenes []scene) ([]row, error) {
	var rows []row
	for _, s := range scenes {
		lines, err := sceneLines(printed, s.heading)
		if err != nil {
			return nil, err
		}
		if len(rows) > 0 {
			rows = append(rows, row{})
		}
		rows = append(rows, row{kindHeading, lines[0]})
		all, next := rowsOf(lines[1:]), 0
		for i, c := range s.cuts {
			from := rowWith(all, next, c.from)
			to := rowWith(all, max(from, 0), c.to)
			if from < 0 || to < 0 {
				return nil, fmt.Errorf("the scene %q no longer has lines from %q to %q: mend excerpt() in dev/demo/picture", lines[0], c.from, c.to)
			}
			if i > 0 && from > next {
				rows = append(rows, row{kindLeftOut, "…"})
			}
			rows = append(rows, all[from:to+1]...)
			next = to + 1
		}
	}
	return rows, nil
}

// sceneLines returns the heading with this beginning, and the lines up to the next heading.
func sceneLines(printed, heading string) ([]string, error) {
	for _, text := range strings.Split(printed, "\n== ")[1:] {
		if strings.HasPrefix(text, heading) {
			return strings.Split(strings.TrimRight(text, "\n"), "\n"), nil
		}
	}
	return nil, fmt.Errorf("the demo no longer has a scene %q: mend excerpt() in dev/demo/picture", heading)
}

// plainly is the flag for output without colours. The demo uses it because its transcript is compared as text. The picture shows the output on a terminal, and
// so omits the flag.
const plainly = " --no-color"

func rowsOf(lines []string) []row {
	var rows []row
	printed := kindOutput
	for _, line := range lines {
		if strings.HasPrefix(line, "$ ") {
			printed = kindOutput
			if strings.HasPrefix(line, "$ sluice get rollout ") {
				printed = kindRelease
			}
			rows = append(rows, row{kindCommand, strings.TrimSuffix(line, plainly)})
			continue
		}
		rows = append(rows, row{printed, strings.TrimPrefix(line, "  ")})
	}
	return rows
}

// rowWith returns the index of the first row from after on that begins with a text.
func rowWith(rows []row, after int, text string) int {
	i := slices.IndexFunc(rows[after:], func(r row) bool { return strings.HasPrefix(strings.TrimLeft(r.text, " "), text) })
	if i < 0 {
		return i
	}
	return after + i
}
