package analysisestimate

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"sluice.dev/sluice/cmd/internal/color"
)

// Text returns the report as lines for people.
func (r Report) Text(i color.Ink) []string {
	o, n := r.Options, r.Interval
	lines := []string{fmt.Sprintf("%s requests per second, %s of them bad: in %s, the canary gets %s requests (%s), and the stable version gets %s. If the canary is no worse, %s and %s of them are bad.",
		numberText(o.Rate), shareText(o.ErrorRate), durationText(o.Interval.Duration()), numberText(n.Canary), shareText(o.Weight/100), numberText(n.Stable), numberText(n.CanaryBad), numberText(n.StableBad)), ""}
	lines = append(append(lines, r.tableLines(i)...), "", r.goodText())
	for _, hint := range r.Hints {
		lines = append(lines, i.Dim(hint))
	}
	return lines
}

// tableLines returns the table of the canaries that are worse. Only the last column is coloured, because colours would move columns after it.
func (r Report) tableLines(i color.Ink) []string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 6, 4, 3, ' ', 0)
	fmt.Fprintf(w, "ERRORS OF THE CANARY\tITS BAD REQUESTS BY THEN\tFAILS AFTER\tWITHIN THE STEP OF %s\n", durationText(r.Options.Step.Duration()))
	for _, c := range r.Worse {
		bad, after, within := "-", "not within "+durationText(r.Horizon.Duration()), i.Yellow("no")
		if c.FailsAfter != nil {
			bad, after = numberText(*c.CanaryBad), durationText(c.FailsAfter.Duration())
		}
		if c.InStep {
			within = i.Green("yes")
		}
		fmt.Fprintf(w, "x%g (%s)\t%s\t%s\t%s\n", c.Ratio, shareText(c.ErrorRate), bad, after, within)
	}
	_ = w.Flush() // a builder takes every write
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	lines[0] = i.Bold(lines[0])
	return lines
}

func (r Report) goodText() string {
	o := r.Options
	rule := fmt.Sprintf("passAfter with samples %s and maxRatio %g", strconv.FormatFloat(o.Samples, 'f', -1, 64), o.MaxRatio)
	step := durationText(o.Step.Duration())
	switch {
	case r.Good.PassesAfter == nil:
		return fmt.Sprintf("A canary that is no worse does not pass within %s (%s).", durationText(r.Horizon.Duration()), rule)
	case r.Good.InStep:
		return fmt.Sprintf("A canary that is no worse passes after %s, within the step of %s (%s).", durationText(r.Good.PassesAfter.Duration()), step, rule)
	}
	return fmt.Sprintf("A canary that is no worse passes after %s, and not within the step of %s (%s).", durationText(r.Good.PassesAfter.Duration()), step, rule)
}

// numberText writes a number of requests with about three digits.
func numberText(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v < 0.001:
		return "less than 0.001"
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func shareText(v float64) string { return strconv.FormatFloat(v*100, 'g', 4, 64) + "%" }

// durationText writes a duration without zero minutes and seconds: 30m, and not 30m0s.
func durationText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
