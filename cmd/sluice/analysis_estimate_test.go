package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestAnEstimateRefusesFlags(t *testing.T) {
	t.Parallel()
	const (
		rate      = ": write the requests per second of canary and stable together, above 0 and below 1000000000, such as 100"
		weight    = ": write the percentage of the requests that the canary gets, above 0 and below 100, such as 5"
		errorRate = ": write the share of bad requests of the stable version, above 0% and below 100%, such as 0.1% or 0.001"
		interval  = ": write a duration from 1s to 24h, such as 30s"
		alpha     = ": write a number above 0 and at most 0.2, such as 0.01"
		burst     = ": write a duration from 0s to 1h, such as 5m"
		samples   = ": write the least number of requests to the canary, at least 1 and at most 1000000000000, such as 20000"
		maxRatio  = ": write a ratio from 1.26 to 18.9, such as 1.5"
	)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no rate":                     {[]string{"--rate="}, "--rate is missing" + rate},
		"no requests":                 {[]string{"--rate=0"}, `--rate "0"` + rate},
		"a rate with a unit":          {[]string{"--rate=100/s"}, `--rate "100/s"` + rate},
		"a rate without an end":       {[]string{"--rate=inf"}, `--rate "inf"` + rate},
		"a rate that is no number":    {[]string{"--rate=nan"}, `--rate "nan"` + rate},
		"no weight":                   {[]string{"--weight=0"}, `--weight "0"` + weight},
		"all requests":                {[]string{"--weight=100%"}, `--weight "100%"` + weight},
		"no error rate":               {[]string{"--error-rate="}, "--error-rate is missing" + errorRate},
		"no errors":                   {[]string{"--error-rate=0"}, `--error-rate "0"` + errorRate},
		"errors only":                 {[]string{"--error-rate=1"}, `--error-rate "1"` + errorRate},
		"errors only, in percent":     {[]string{"--error-rate=100%"}, `--error-rate "100%"` + errorRate},
		"a short interval":            {[]string{"--interval=999ms"}, `--interval "999ms"` + interval},
		"a long interval":             {[]string{"--interval=25h"}, `--interval "25h"` + interval},
		"an interval without a unit":  {[]string{"--interval=30"}, `--interval "30"` + interval},
		"no step":                     {[]string{"--step=0s"}, `--step "0s": write a duration above 0s, such as 10m`},
		"a step with many intervals":  {[]string{"--step=6h", "--interval=1s"}, `--step "6h": write at most 5h33m20s, which is 20000 intervals, or a longer --interval`},
		"an alpha of 0":               {[]string{"--alpha=0"}, `--alpha "0"` + alpha},
		"an alpha above 0.2":          {[]string{"--alpha=0.21"}, `--alpha "0.21"` + alpha},
		"bursts that end before 0":    {[]string{"--longest-burst=-1s"}, `--longest-burst "-1s"` + burst},
		"bursts of more than an hour": {[]string{"--longest-burst=61m"}, `--longest-burst "61m"` + burst},
		"no samples":                  {[]string{"--samples=0"}, `--samples "0"` + samples},
		"a ratio that is too low":     {[]string{"--max-ratio=1.25"}, `--max-ratio "1.25"` + maxRatio},
		"a ratio that is too high":    {[]string{"--max-ratio=19"}, `--max-ratio "19"` + maxRatio},
		"another output":              {[]string{"-o", "xml"}, `--output "xml": use json or yaml`},
		"an unknown flag":             {[]string{"--wait"}, "unknown flag: --wait"},
		"an argument":                 {[]string{"checkout"}, `unknown command "checkout" for "sluice analysis estimate"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errors := sluice(t.Context(), append([]string{"analysis", "estimate", "--rate=100", "--error-rate=0.1%"}, test.args...)...)
			if want := "error: " + test.want + "\n"; code != 2 || out != "" || errors != want {
				t.Errorf("it ended with %d:\n%s\nwant 2:\n%s", code, errors, want)
			}
		})
	}
}

func TestAnEstimateTakesEveryEndOfARange(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--rate=0.001", "--weight=99.9%", "--error-rate=0.999", "--interval=24h", "--step=1s", "--alpha=0.2", "--longest-burst=0s", "--samples=1", "--max-ratio=18.9"},
		{"--rate=999999999", "--weight=0.1", "--error-rate=99.9%", "--interval=1s", "--step=5h33m20s", "--longest-burst=1h", "--max-ratio=1.26", "--samples=1"},
	} {
		if code, _, errors := sluice(t.Context(), append([]string{"analysis", "estimate"}, args...)...); code != 0 {
			t.Errorf("%v ended with %d: %s", args, code, errors)
		}
	}
}

// Names of the data are a contract with programs.
func TestAnEstimateForPrograms(t *testing.T) {
	t.Parallel()
	want := []string{
		"good", "good.passesAfterSeconds", "good.passesWithinStep", "hints", "horizonSeconds",
		"interval", "interval.canary", "interval.canaryBad", "interval.stable", "interval.stableBad",
		"options", "options.alpha", "options.errorRate", "options.intervalSeconds", "options.longestBurstSeconds", "options.maxRatio",
		"options.requestsPerSecond", "options.samples", "options.stepSeconds", "options.weight",
		"worse", "worse.canaryBad", "worse.errorRate", "worse.failsAfterSeconds", "worse.failsWithinStep", "worse.ratio",
	}
	for output, decode := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(text []byte, into any) error { return yaml.Unmarshal(text, into) },
	} {
		t.Run(output, func(t *testing.T) {
			t.Parallel()
			code, out, errors := sluice(t.Context(), "analysis", "estimate", "--rate", "0.01", "--error-rate", "5%", "--interval", "5m", "-o", output)
			if code != 0 {
				t.Fatalf("it ended with %d: %s", code, errors)
			}
			var got map[string]any
			if err := decode([]byte(out), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, namesIn("", got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			options := map[string]any{
				"requestsPerSecond": 0.01, "weight": 5., "errorRate": 0.05, "intervalSeconds": 300., "stepSeconds": 600., "alpha": 0.01, "longestBurstSeconds": 300., "samples": 20000., "maxRatio": 1.5,
			}
			if diff := cmp.Diff(options, got["options"].(map[string]any)); diff != "" {
				t.Errorf("the options (-want +got):\n%s", diff)
			}
			if after := got["good"].(map[string]any)["passesAfterSeconds"]; after != nil {
				t.Errorf("it passes after %v seconds, without enough samples", after)
			}
		})
	}
}

// namesIn returns the names of all fields in ascending order, with those of the first entry of each list.
func namesIn(prefix string, value any) (names []string) {
	switch v := value.(type) {
	case map[string]any:
		for name, field := range v {
			names = append(names, strings.TrimPrefix(prefix+"."+name, "."))
			names = append(names, namesIn(strings.TrimPrefix(prefix+"."+name, "."), field)...)
		}
		slices.Sort(names)
	case []any:
		return namesIn(prefix, v[0])
	}
	return names
}
