package main

import (
	"regexp"
	"strings"
)

// ink is a colour of a terminal, as in cmd/internal/color.
type ink string

const (
	plain ink = ""
	bold  ink = "bold"
	dim   ink = "dim"
	red   ink = "red"
	green ink = "green"
	cyan  ink = "cyan"
)

// cell is one column of a line on the terminal.
type cell struct {
	char rune
	ink  ink
}

// rule colours the group of its pattern. A rule with a mark also replaces the group by the mark, which has the same width.
type rule struct {
	pattern *regexp.Regexp
	ink     ink
	mark    string
}

// releaseRules returns the colours and marks of sluice get rollout on a terminal. A test compares them with the golden files of that command. Pods that are not
// ready have no rule: the demo shows a release when a step pauses, and then all pods are ready.
func releaseRules() []rule {
	return []rule{
		{pattern: regexp.MustCompile(`^Rollout +(\S+)$`), ink: bold},
		{pattern: regexp.MustCompile(`^Phase +(Progressing)$`), ink: cyan},
		{pattern: regexp.MustCompile(`^(Steps|Revisions|Traffic|Approvals|Last transitions)$`), ink: bold},
		{pattern: regexp.MustCompile(`^(\+) +\d+  `), ink: green, mark: "✔"},
		{pattern: regexp.MustCompile(`^(>) +\d+  `), ink: cyan, mark: "▶"},
		{pattern: regexp.MustCompile(`  (<- you are here)$`), ink: cyan},
		{pattern: regexp.MustCompile(`^ {9}(sluice \S.*)$`), ink: bold},
		{pattern: regexp.MustCompile(`^(stable|canary)  [A-Z]`), ink: bold},
		{pattern: regexp.MustCompile(`  (\d+/\d+ ready)`), ink: green},
		{pattern: regexp.MustCompile("^(`-) ReplicaSet"), mark: "└─"},
		{pattern: regexp.MustCompile(`^ {4}(\+) \S+  Ready`), ink: green, mark: "✔"},
		{pattern: regexp.MustCompile(`^ {4}\+ \S+  Ready  (\S+)$`), ink: dim},
		{pattern: regexp.MustCompile(`^[A-Z]\w+ \S+  (shaped by .+|as its owner wrote it)$`), ink: dim},
		{pattern: regexp.MustCompile(`^  (script .+, hash \S+)$`), ink: dim},
	}
}

// outputRules colour output without own colours: times, successes and failures.
func outputRules() []rule {
	return []rule{
		{pattern: regexp.MustCompile(`^(\d\d:\d\d:\d\d)  `), ink: dim},
		{pattern: regexp.MustCompile(` (approved at step \d+)$`), ink: green},
		{pattern: regexp.MustCompile(`  (\S+: \d+ measurements? failed.*)$`), ink: red},
		{pattern: regexp.MustCompile(`  (the router sends all requests back: [^;]+)`), ink: green},
		{pattern: regexp.MustCompile(`(Users hit: \d+)`), ink: bold},
	}
}

// columns is the width of the terminal.
const columns = 100

// paintRows colours rows, and wraps rows that are wider than the terminal.
func paintRows(rows []row) [][]cell {
	release, output := releaseRules(), outputRules()
	var lines [][]cell
	for _, r := range rows {
		var line []cell
		switch r.kind {
		case kindHeading:
			line = append(inkText("== ", dim), inkText(r.text, bold)...)
		case kindCommand:
			line = append(inkText("$", green), inkText(strings.TrimPrefix(r.text, "$"), bold)...)
		case kindRelease:
			line = append(inkText("  ", plain), paintText(r.text, release)...)
		case kindOutput:
			line = append(inkText("  ", plain), paintText(r.text, output)...)
		case kindLeftOut:
			line = inkText("  "+r.text, dim)
		}
		lines = append(lines, wrapLine(line)...)
	}
	return lines
}

func inkText(text string, with ink) []cell {
	var cells []cell
	for _, char := range text {
		cells = append(cells, cell{char, with})
	}
	return cells
}

// paintText colours one line by rules.
func paintText(text string, rules []rule) []cell {
	inks, marks := make([]ink, len(text)), map[int]rune{}
	for _, r := range rules {
		at := r.pattern.FindStringSubmatchIndex(text)
		if at == nil {
			continue
		}
		for i := at[2]; i < at[3]; i++ {
			inks[i] = r.ink
		}
		for i, char := range []rune(r.mark) {
			marks[at[2]+i] = char
		}
	}
	var cells []cell
	for i, char := range text {
		if mark, ok := marks[i]; ok {
			char = mark
		}
		cells = append(cells, cell{char, inks[i]})
	}
	return cells
}

// wrapLine breaks a line that is wider than the terminal at its last space there, and indents the rest.
func wrapLine(line []cell) [][]cell {
	if len(line) <= columns {
		return [][]cell{line}
	}
	end := columns
	for end > columns/2 && line[end].char != ' ' {
		end--
	}
	rest := line[end:]
	if rest[0].char == ' ' {
		rest = rest[1:]
	}
	return append([][]cell{line[:end]}, wrapLine(append(inkText("    ", plain), rest...))...)
}
