package chart_test

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/cmd/sluice/internal/chart"
	"sluice.dev/sluice/pkg/analysis"
)

var start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// points returns measurements every 30 s, from values and the first letters of outcomes: "0.99p 0.8f 0.96i n e".
func points(text string) (list []chart.Point) {
	outcomes := map[byte]analysis.Outcome{
		'p': analysis.OutcomePass, 'f': analysis.OutcomeFail, 'i': analysis.OutcomeInconclusive, 'n': analysis.OutcomeNoData, 'e': analysis.OutcomeError,
	}
	for i, word := range strings.Fields(text) {
		p := chart.Point{At: start.Add(time.Duration(i) * 30 * time.Second), Outcome: outcomes[word[len(word)-1]]}
		if v, err := strconv.ParseFloat(word[:len(word)-1], 64); err == nil {
			p.Value = &v
		}
		list = append(list, p)
	}
	return list
}

func TestWhatIsDrawn(t *testing.T) {
	t.Parallel()
	limits := []chart.Limit{{Value: 0.99, Text: "value >= 0.99"}}
	for name, test := range map[string]struct {
		points []chart.Point
		limits []chart.Limit
		style  chart.Style
		want   string
	}{
		"nothing, of no measurements": {limits: limits},
		"values on both sides of a limit": {
			points: points("1p 0.995p 0.96f n 0.96f e 0.98i 1p"), limits: limits,
			want: `
   1 |*      *
0.99 |-*------
     |      ?
     |
0.96 |  xox!
      10:00:00 10:03:30
      limit 0.99: value >= 0.99
      x failed  ? inconclusive  o no data  ! went wrong
`,
		},
		"one value, again and again": {
			points: points("3p 3p"),
			want: `
3 |**
   10:00:00 10:00:30
`,
		},
		"no value at all": {
			points: points("n e"), limits: limits,
			want: `
 |o!
  10:00:00 10:00:30
  o no data  ! went wrong
`,
		},
		"signs of Unicode": {
			points: points("1p 0.9f"), limits: limits, style: chart.Style{Unicode: true},
			want: `
  1 │●╌
    │
    │
    │
0.9 │ x
     10:00:00 10:00:30
     limit 0.99: value >= 0.99
     x failed
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := "\n" + strings.Join(chart.DrawPoints(test.points, test.limits, test.style), "\n") + "\n"
			if test.want == "" {
				test.want = "\n\n"
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestManyMeasurementsFitAndHideNoFailure(t *testing.T) {
	t.Parallel()
	var list []chart.Point
	for i := range 1000 {
		v := math.Sin(float64(i) / 50)
		p := chart.Point{At: start.Add(time.Duration(i) * time.Second), Value: &v, Outcome: analysis.OutcomePass}
		if i == 500 {
			p.Outcome = analysis.OutcomeFail
		}
		list = append(list, p)
	}
	for _, width := range []int{0, 40, 80, 200} {
		lines := chart.DrawPoints(list, []chart.Limit{{Value: 2, Text: strings.Repeat("long ", 50)}}, chart.Style{Width: width, Unicode: true, Color: true})
		text := regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(strings.Join(lines, "\n"), "")
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > max(width, 40) {
				t.Errorf("a line of %d columns in %d:\n%s", n, width, line)
			}
		}
		if strings.Count(text, "x") != 2 { // the mark, and its meaning
			t.Errorf("width %d hides the failure:\n%s", width, text)
		}
	}
}
