package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice.dev/sluice/cmd/internal/color"
	"sluice.dev/sluice/cmd/sluice/internal/analysisestimate"
)

const estimateCodes = `Exit codes:
  0  it printed the estimate
  2  a flag is missing or wrong`

// estimateFlags are the texts of the flags. The command parses them itself, so that its errors say what to write.
type estimateFlags struct {
	rate, weight, errorRate, interval, step, alpha, longestBurst, samples, maxRatio, output string
}

func (c *cli) analysisEstimateCommand() *cobra.Command {
	var f estimateFlags
	estimate := &cobra.Command{
		Use: "estimate --rate NUMBER --error-rate SHARE", Short: "Show how long a comparison of canary and stable takes to decide at your traffic",
		Long: "Calculate how long a comparison of canary and stable (the field compare of a template) takes to decide, before a release depends on it.\n" +
			"Show when canaries with 2 to 30 times the errors fail, and when a canary that is no worse passes. The times are medians for bad\n" +
			"requests that come evenly. The default of --weight is the weight of a typical first step. It needs no cluster.\n\n" + estimateCodes,
		Example: fmt.Sprintf("  %[1]s analysis estimate --rate 100 --error-rate 0.1%%\n"+
			"  %[1]s analysis estimate --rate 2 --weight 10 --error-rate 0.005 --interval 1m --step 2h -o json", c.command),
		Args:              usageArgs(cobra.NoArgs),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(*cobra.Command, []string) error { return c.estimateComparison(f) },
	}
	estimate.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return unreadableError(err) })
	flags := estimate.Flags()
	flags.StringVar(&f.rate, "rate", "", "requests per second of canary and stable together, a `number` above 0; required")
	flags.StringVar(&f.weight, "weight", "5", "`percentage` of the requests that the canary gets, above 0 and below 100")
	flags.StringVar(&f.errorRate, "error-rate", "", "`share` of bad requests of the stable version, such as 0.1% or 0.001; required")
	flags.StringVar(&f.interval, "interval", "30s", "interval of the metric, a `duration` from 1s to 24h")
	flags.StringVar(&f.step, "step", "10m", "length of the step, a `duration`")
	flags.StringVar(&f.alpha, "alpha", "0.01", "compare.alpha, a `number` above 0 and at most 0.2")
	flags.StringVar(&f.longestBurst, "longest-burst", "5m", "compare.longestBurst, a `duration` from 0s to 1h")
	flags.StringVar(&f.samples, "samples", "20000", "compare.passAfter.samples, a `number` of requests")
	flags.StringVar(&f.maxRatio, "max-ratio", "1.5", "compare.passAfter.maxRatio, a `number` from 1.26 to 18.9")
	flags.StringVarP(&f.output, "output", "o", "", "json or yaml instead of text")
	_ = estimate.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return estimate
}

func (c *cli) estimateComparison(f estimateFlags) error {
	if f.output != "" && f.output != "json" && f.output != "yaml" {
		return unreadableError(fmt.Errorf("--output %q: use json or yaml", f.output))
	}
	o, err := f.options()
	if err != nil {
		return unreadableError(err)
	}
	report := analysisestimate.Estimate(o)
	if f.output != "" {
		return c.printValues(f.output, report)
	}
	for _, line := range report.Text(color.Ink{On: c.viewStyle().Color}) {
		fmt.Fprintln(c.out, line)
	}
	return nil
}

// options parses the flags.
func (f estimateFlags) options() (o analysisestimate.Options, err error) {
	for _, flag := range []struct {
		name, text string
		parse      func(string) (float64, bool)
		fits       func(float64) bool
		into       *float64
		write      string
	}{
		{"rate", f.rate, parseNumber, between(0, 1e9), &o.Rate, "the requests per second of canary and stable together, above 0 and below 1000000000, such as 100"},
		{"weight", f.weight, parsePercentage, between(0, 100), &o.Weight, "the percentage of the requests that the canary gets, above 0 and below 100, such as 5"},
		{"error-rate", f.errorRate, parseShare, between(0, 1), &o.ErrorRate, "the share of bad requests of the stable version, above 0% and below 100%, such as 0.1% or 0.001"},
		{"interval", f.interval, parseSeconds, fromTo(1, 24*3600), (*float64)(&o.Interval), "a duration from 1s to 24h, such as 30s"},
		{"step", f.step, parseSeconds, func(v float64) bool { return v > 0 }, (*float64)(&o.Step), "a duration above 0s, such as 10m"},
		{"alpha", f.alpha, parseNumber, func(v float64) bool { return v > 0 && v <= 0.2 }, &o.Alpha, "a number above 0 and at most 0.2, such as 0.01"},
		{"longest-burst", f.longestBurst, parseSeconds, fromTo(0, 3600), (*float64)(&o.LongestBurst), "a duration from 0s to 1h, such as 5m"},
		{"samples", f.samples, parseNumber, fromTo(1, 1e12), &o.Samples, "the least number of requests to the canary, at least 1 and at most 1000000000000, such as 20000"},
		{"max-ratio", f.maxRatio, parseNumber, fromTo(1.26, 18.9), &o.MaxRatio, "a ratio from 1.26 to 18.9, such as 1.5"},
	} {
		v, ok := flag.parse(flag.text)
		switch {
		case flag.text == "":
			return o, fmt.Errorf("--%s is missing: write %s", flag.name, flag.write)
		case !ok || !flag.fits(v):
			return o, fmt.Errorf("--%s %q: write %s", flag.name, flag.text, flag.write)
		}
		*flag.into = v
	}
	if longest := o.Interval.Duration() * analysisestimate.MaxTicks; o.Step.Duration() > longest {
		return o, fmt.Errorf("--step %q: write at most %s, which is %d intervals, or a longer --interval", f.step, longest, analysisestimate.MaxTicks)
	}
	return o, nil
}

// between accepts numbers between two others, and fromTo accepts these two as well.
func between(low, high float64) func(float64) bool {
	return func(v float64) bool { return v > low && v < high }
}

func fromTo(low, high float64) func(float64) bool {
	return func(v float64) bool { return v >= low && v <= high }
}

func parseNumber(text string) (float64, bool) {
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil
}

// parsePercentage reads 5 and 5% as 5.
func parsePercentage(text string) (float64, bool) { return parseNumber(strings.TrimSuffix(text, "%")) }

// parseShare reads 0.1% and 0.001 as 0.001.
func parseShare(text string) (float64, bool) {
	v, ok := parsePercentage(text)
	if strings.HasSuffix(text, "%") {
		v /= 100
	}
	return v, ok
}

func parseSeconds(text string) (float64, bool) {
	d, err := time.ParseDuration(text)
	return d.Seconds(), err == nil
}
