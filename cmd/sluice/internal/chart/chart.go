// Package chart draws the measurements of one metric as a few lines of text. It knows neither clock nor terminal.
//
// Its one invariant: no line is wider than the given width, and each bad measurement is visible, regardless of their number.
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
	// Value is nil for a measurement without a value.
	Value   *float64
	Outcome analysis.Outcome
}

// Limit is a value at which the judgement of a measurement changes.
type Limit struct {
	Value float64
	// Text describes the limit, such as "value >= 0.99".
	Text string
}

// Style configures the drawing.
type Style struct {
	Color, Unicode bool
	// Width is the number of columns; the minimum is 40.
	Width int
}

const (
	height   = 5
	minWidth = 40
	clock    = "15:04:05"
)

// DrawPoints draws the points, which are in order of time. Without points it draws nothing.
func DrawPoints(points []Point, limits []Limit, s Style) []string {
	if len(points) == 0 {
		return nil
	}
	d := drawing{Style: s, ink: color.Ink{On: s.Color}, limits: limits}
	d.Width = max(d.Width, minWidth)
	d.scaleRows(points)
	d.points = fitColumns(points, d.Width-d.margin-2)
	var lines []string
	for row := range d.rowCount() {
		lines = append(lines, d.drawRow(row))
	}
	return append(lines, d.footerLines()...)
}

type drawing struct {
	Style
	ink      color.Ink
	points   []Point
	limits   []Limit
	low, top float64
	// flat: there is at most one distinct value.
	flat   bool
	margin int
}

// scaleRows computes the values of the rows.
func (d *drawing) scaleRows(points []Point) {
	d.low, d.top = math.Inf(1), math.Inf(-1)
	for _, p := range points {
		if v, ok := finiteValue(p); ok {
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
	for row := range d.rowCount() {
		d.margin = max(d.margin, len(d.rowLabel(row)))
	}
}

func finiteValue(p Point) (float64, bool) {
	if p.Value == nil || math.IsNaN(*p.Value) || math.IsInf(*p.Value, 0) {
		return 0, false
	}
	return *p.Value, true
}

func (d *drawing) rowCount() int {
	if d.flat {
		return 1
	}
	return height
}

func (d *drawing) rowOf(v float64) int {
	if d.flat {
		return 0
	}
	return int(math.Round((d.top - v) / (d.top - d.low) * (height - 1)))
}

// rowLabel returns the label of a row, if it shows the maximum, the minimum, or a limit.
func (d *drawing) rowLabel(row int) string {
	switch {
	case math.IsInf(d.low, 0):
		return ""
	case row == 0:
		return FormatNumber(d.top)
	case row == d.rowCount()-1:
		return FormatNumber(d.low)
	}
	for _, l := range d.limits {
		if d.rowOf(l.Value) == row {
			return FormatNumber(l.Value)
		}
	}
	return ""
}

// FormatNumber writes a value in a few digits.
func FormatNumber(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// fitColumns returns at most one point for each column: the worst one of the column, or else the last.
func fitColumns(points []Point, columns int) []Point {
	if len(points) <= columns {
		return points
	}
	var kept []Point
	for i := range columns {
		group := points[i*len(points)/columns : (i+1)*len(points)/columns]
		worst := group[len(group)-1]
		for _, p := range group {
			if outcomeRank(p.Outcome) > outcomeRank(worst.Outcome) {
				worst = p
			}
		}
		kept = append(kept, worst)
	}
	return kept
}

func outcomeRank(o analysis.Outcome) int {
	return slices.Index([]analysis.Outcome{analysis.OutcomePass, analysis.OutcomeNoData, analysis.OutcomeInconclusive, analysis.OutcomeError, analysis.OutcomeFail}, o)
}

// drawRow draws one row. Points without a value appear in the last row.
func (d *drawing) drawRow(row int) string {
	limit := ""
	for _, l := range d.limits {
		if d.rowOf(l.Value) == row {
			limit = "-"
			if d.Unicode {
				limit = "╌"
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%*s %s", d.margin, d.rowLabel(row), d.axisBar())
	blank := 0
	for _, p := range d.points {
		v, ok := finiteValue(p)
		switch {
		case ok && d.rowOf(v) == row, !ok && row == d.rowCount()-1:
			b.WriteString(strings.Repeat(" ", blank) + d.outcomeMark(p.Outcome))
			blank = 0
		case limit != "":
			b.WriteString(d.ink.Dim(limit))
		default:
			blank++
		}
	}
	return b.String()
}

func (d *drawing) axisBar() string {
	if d.Unicode {
		return "│"
	}
	return "|"
}

// outcomeMark returns the mark of an outcome.
func (d *drawing) outcomeMark(o analysis.Outcome) string {
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

// footerLines returns the times, the limits and the meaning of the marks, as far as they exist.
func (d *drawing) footerLines() []string {
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
			legend = append(legend, d.outcomeMark(kind.o)+" "+kind.text)
		}
	}
	for _, l := range d.limits {
		text := "limit " + FormatNumber(l.Value) + ": " + l.Text
		if utf8.RuneCountInString(text) > d.Width-len(indent) {
			text = "limit " + FormatNumber(l.Value)
		}
		lines = append(lines, indent+d.ink.Dim(text))
	}
	if len(legend) > 0 {
		lines = append(lines, indent+strings.Join(legend, "  "))
	}
	return lines
}
