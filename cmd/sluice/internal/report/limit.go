package report

import (
	"cmp"
	"regexp"
	"strconv"

	"sluice.dev/sluice/cmd/sluice/internal/chart"
	"sluice.dev/sluice/pkg/api"
)

// comparison finds the value that an expression compares with: a number, or an argument.
var comparison = regexp.MustCompile(`\bvalue\s*(?:<=|>=|<|>)\s*(?:double\(\s*args\.([A-Za-z_][A-Za-z0-9_]*)\s*\)|([-+]?[0-9][0-9.]*(?:[eE][-+]?[0-9]+)?))`)

// LimitsOf returns the limits of a metric with these arguments, if its expressions contain them in a simple form.
func LimitsOf(m api.Metric, args map[string]string) []chart.Limit {
	if m.Compare != nil {
		return []chart.Limit{{Value: cmp.Or(m.Compare.TolerateRatio, 1), Text: "times the stable version's rate is no worse"}}
	}
	var list []chart.Limit
	for _, rule := range []struct{ name, text string }{{"passWhen", m.PassWhen}, {"failWhen", m.FailWhen}} {
		for _, found := range comparison.FindAllStringSubmatch(rule.text, -1) {
			number := found[2]
			if found[1] != "" {
				number = args[found[1]]
			}
			if v, err := strconv.ParseFloat(number, 64); err == nil {
				list = append(list, chart.Limit{Value: v, Text: rule.name + " " + rule.text})
			}
		}
	}
	return list
}
