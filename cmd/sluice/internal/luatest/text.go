package luatest

import (
	"fmt"
	"sluice.dev/sluice/cmd/internal/color"
	"strings"
)

// Text returns the report as lines for people.
func (r Report) Text(in color.Ink) []string {
	var lines []string
	for i, s := range r.Scripts {
		if i > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, in.Bold(s.Script))
		for _, c := range s.Cases {
			lines = append(lines, c.textLines(in)...)
		}
		if len(s.Unshown) > 0 {
			lines = append(lines, in.Dim("  no case shows: "+strings.Join(s.Unshown, ", ")))
		}
	}
	verdict := in.Green(fmt.Sprintf("%s passed.", countText(r.Passed, "step")))
	if r.Failed > 0 {
		verdict = in.Red(fmt.Sprintf("%d failed, %s passed.", r.Failed, countText(r.Passed, "step")))
	}
	return append(lines, "", verdict)
}

func countText(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (c CaseReport) textLines(in color.Ink) []string {
	if c.Passed() {
		return []string{fmt.Sprintf("  %s    %s  %s", in.Green("ok"), c.Case, in.Dim(countText(len(c.Steps), "step")))}
	}
	lines := []string{fmt.Sprintf("  %s  %s", in.Red("FAIL"), c.Case)}
	for _, s := range c.Steps {
		if s.Passed {
			continue
		}
		what := "the case"
		if s.Step > 0 {
			what = fmt.Sprintf("step %d", s.Step)
		}
		for _, w := range s.Wrong {
			lines = append(lines, fmt.Sprintf("    %s: %s", what, w))
		}
		for _, d := range color.PaintDiff(s.Diff, in) {
			lines = append(lines, "      "+d)
		}
	}
	return lines
}
