// Package chart draws the measurements of one metric as a few lines of text. It knows neither clock nor terminal.
//
// Its one invariant: no line is wider than asked for, and each measurement that went wrong is seen, however many there are.
package chart

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sluice.dev/sluice/cmd/internal/color"
	"sluice.dev/sluice/pkg/analysis"
)

// Point is one measurement.
type Point struct {
	At time.Time
	// Value is nil when there was nothing to measure.
	Value   *float64
	Outcome analysis.Outcome
}

// Limit is a value beyond which a measurement is judged otherwise.
type Limit struct {
	Value float64
	// Text says what it limits, such as "value >= 0.99".
	Text string
}

// Style says how to draw.
type Style struct {
	Color, Unicode bool
	// Width is how many columns there are; at least 40 are taken.
	Width int
}

const (
	height   = 5
	minWidth = 40
	clock    = "15:04:05"
)

// Draw draws the points, which are in order of time. Without points it draws nothing.
func Draw(points []Point, limits []Limit, s Style) []string {
	if len(points) == 0 {
		return nil
	}
	d := drawing{Style: s, ink: color.Ink{On: s.Color}, limits: limits}
	d.Width = max(d.Width, minWidth)
	d.scale(points)
	d.points = squeeze(points, d.Width-d.margin-2)
	var lines []string
	for row := range d.rows() {
		lines = append(lines, d.line(row))
	}
	return append(lines, d.feet()...)
}

type drawing struct {
	Style
	ink      color.Ink
	points   []Point
	limits   []Limit
	low, top float64
	// flat: there is no more than one value, or none.
	flat   bool
	margin int
}

// scale finds what the rows stand for.
func (d *drawing) scale(points []Point) {
	d.low, d.top = math.Inf(1), math.Inf(-1)
	for _, p := range points {
		if v, ok := value(p); ok {
			d.low, d.top = min(d.low, v), max(d.top, v)
		}
	}
	if d.low > d.top {
		d.limits, d.flat = nil, true
	}
	for _, l := range d.limits {
		d.low, d.top = min(d.low, l.Value), max(d.top, l.Value)
	}
	d.flat = d.flat || d.low == d.top
	for row := range d.rows() {
		d.margin = max(d.margin, len(d.label(row)))
	}
}

func value(p Point) (float64, bool) {
	if p.Value == nil || math.IsNaN(*p.Value) || math.IsInf(*p.Value, 0) {
		return 0, false
	}
	return *p.Value, true
}

func (d *drawing) rows() int {
	if d.flat {
		return 1
	}
	return height
}

func (d *drawing) row(v float64) int {
	if d.flat {
		return 0
	}
	return int(math.Round((d.top - v) / (d.top - d.low) * (height - 1)))
}

// label is the value that a row stands for, if it has one of interest: the greatest, the least, or a limit.
func (d *drawing) label(row int) string {
	switch {
	case math.IsInf(d.low, 0):
		return ""
	case row == 0:
		return Number(d.top)
	case row == d.rows()-1:
		return Number(d.low)
	}
	for _, l := range d.limits {
		if d.row(l.Value) == row {
			return Number(l.Value)
		}
	}
	return ""
}

// Number writes a value in a few digits.
func Number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// squeeze leaves at most so many points: of those that share a column the worst, or else the last.
func squeeze(points []Point, columns int) []Point {
	if len(points) <= columns {
		return points
	}
	var kept []Point
	for i := range columns {
		group := points[i*len(points)/columns : (i+1)*len(points)/columns]
		worst := group[len(group)-1]
		for _, p := range group {
			if badness(p.Outcome) > badness(worst.Outcome) {
				worst = p
			}
		}
		kept = append(kept, worst)
	}
	return kept
}

func badness(o analysis.Outcome) int {
	return slices.Index([]analysis.Outcome{analysis.OutcomePass, analysis.OutcomeNoData, analysis.OutcomeInconclusive, analysis.OutcomeError, analysis.OutcomeFail}, o)
}

// line draws one row: what has no value stands in the last one.
func (d *drawing) line(row int) string {
	limit := ""
	for _, l := range d.limits {
		if d.row(l.Value) == row {
			limit = "-"
			if d.Unicode {
				limit = "╌"
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%*s %s", d.margin, d.label(row), d.bar())
	blank := 0
	for _, p := range d.points {
		v, ok := value(p)
		switch {
		case ok && d.row(v) == row, !ok && row == d.rows()-1:
			b.WriteString(strings.Repeat(" ", blank) + d.mark(p.Outcome))
			blank = 0
		case limit != "":
			b.WriteString(d.ink.Dim(limit))
		default:
			blank++
		}
	}
	return b.String()
}

func (d *drawing) bar() string {
	if d.Unicode {
		return "│"
	}
	return "|"
}

// mark is how a measurement is drawn.
func (d *drawing) mark(o analysis.Outcome) string {
	switch o {
	case analysis.OutcomePass:
		if d.Unicode {
			return d.ink.Green("●")
		}
		return d.ink.Green("*")
	case analysis.OutcomeFail:
		return d.ink.Red("x")
	case analysis.OutcomeInconclusive:
		return d.ink.Yellow("?")
	case analysis.OutcomeNoData:
		return d.ink.Dim("o")
	}
	return d.ink.Yellow("!")
}

// feet are the times, the limits and what the marks mean, as far as there are any.
func (d *drawing) feet() []string {
	first, last := d.points[0].At.UTC().Format(clock), d.points[len(d.points)-1].At.UTC().Format(clock)
	times := first
	if gap := len(d.points) - len(first) - len(last); len(d.points) > 1 {
		times += strings.Repeat(" ", max(1, gap)) + last
	}
	indent := strings.Repeat(" ", d.margin+2)
	lines := []string{indent + d.ink.Dim(times)}
	var legend []string
	for _, kind := range []struct {
		o    analysis.Outcome
		text string
	}{
		{analysis.OutcomeFail, "failed"}, {analysis.OutcomeInconclusive, "inconclusive"}, {analysis.OutcomeNoData, "no data"}, {analysis.OutcomeError, "went wrong"},
	} {
		if slices.ContainsFunc(d.points, func(p Point) bool { return p.Outcome == kind.o }) {
			legend = append(legend, d.mark(kind.o)+" "+kind.text)
		}
	}
	for _, l := range d.limits {
		text := "limit " + Number(l.Value) + ": " + l.Text
		if utf8.RuneCountInString(text) > d.Width-len(indent) {
			text = "limit " + Number(l.Value)
		}
		lines = append(lines, indent+d.ink.Dim(text))
	}
	if len(legend) > 0 {
		lines = append(lines, indent+strings.Join(legend, "  "))
	}
	return lines
}
