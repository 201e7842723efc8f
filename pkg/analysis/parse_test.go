package analysis

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWhatIsReadFromADefinition(t *testing.T) {
	t.Parallel()
	d := aDefinition(func(d *Definition) {
		d.Interval, d.Settle = "90s", "5s"
		d.Query = `sum(rate(ok{ns="{{args.namespace}}"}[{{ args.interval }}])) / sum(rate(all[2m]))`
		d.MinSamples = &MinSamplesDefinition{Query: "sum(increase(all[3m]))", AtLeast: 100}
		d.NoData = &PolicyDefinition{Policy: "Fail"}
		d.Error = &PolicyDefinition{Deadline: "15m"}
	})
	m, err := Parse(d, map[string]string{"namespace": "shop"})
	if err != nil {
		t.Fatal(err)
	}
	m.Rule = nil
	want := Metric{
		Name: "success-rate", Interval: 90 * time.Second, Count: 10, FailureLimit: 1, InconclusiveLimit: 2, Settle: 5 * time.Second, Window: 3 * time.Minute,
		MinSamples: &MinSamples{Query: "sum(increase(all[3m]))", AtLeast: 100},
		NoData:     Policy{Action: Fail}, Error: Policy{Action: Hold, Deadline: 15 * time.Minute},
		Query: `sum(rate(ok{ns="shop"}[90s])) / sum(rate(all[2m]))`,
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
}

func TestWhatAComparisonAsks(t *testing.T) {
	t.Parallel()
	counts := parsed(t, aComparison())
	want := Queries{
		CanaryBad: "increase(canary_errors[30s])", CanaryTotal: "increase(canary[30s])", StableBad: "increase(stable_errors[30s])", StableTotal: "increase(stable[30s])",
	}
	if diff := cmp.Diff(want, counts.Queries()); diff != "" {
		t.Error(diff)
	}
	if counts.Compare.Alpha != 0.01 || counts.Compare.Tolerate != 1 || counts.Window != 30*time.Second {
		t.Errorf("got %+v", counts.Compare)
	}
	latency := parsed(t, aLatency())
	want = Queries{CanaryBuckets: "sum by (le) (increase(canary_bucket[30s]))", StableBuckets: "sum by (le) (increase(stable_bucket[30s]))"}
	if diff := cmp.Diff(want, latency.Queries()); diff != "" {
		t.Error(diff)
	}
	if latency.Compare.Latency.Quantile != 0.99 {
		t.Errorf("got %+v", latency.Compare.Latency)
	}
}

func TestWhichDefinitionsAreRefused(t *testing.T) {
	t.Parallel()
	threshold := func(change func(*Definition)) Definition { return aDefinition(change) }
	compare := func(change func(*CompareDefinition)) Definition {
		return aComparison(func(d *Definition) { change(d.Compare) })
	}
	for name, c := range map[string]struct {
		d     Definition
		field string
	}{
		"no name":                                 {threshold(func(d *Definition) { d.Name = "" }), "name"},
		"no interval":                             {threshold(func(d *Definition) { d.Interval = "" }), "interval"},
		"an interval without a unit":              {threshold(func(d *Definition) { d.Interval = "30" }), "interval"},
		"an interval with a blank":                {threshold(func(d *Definition) { d.Interval = "3 s" }), "interval"},
		"an interval below a second":              {threshold(func(d *Definition) { d.Interval = "10ms" }), "interval"},
		"a negative settle":                       {threshold(func(d *Definition) { d.Settle = "-5s" }), "settle"},
		"a window that is no duration":            {threshold(func(d *Definition) { d.Window = "long" }), "window"},
		"a negative count":                        {threshold(func(d *Definition) { d.Count = -1 }), "count"},
		"a failure limit that cannot fire":        {threshold(func(d *Definition) { d.FailureLimit = 10 }), "failureLimit"},
		"a negative failure limit":                {threshold(func(d *Definition) { d.FailureLimit = -1 }), "failureLimit"},
		"limits that together let none pass":      {threshold(func(d *Definition) { d.FailureLimit, d.InconclusiveLimit = 5, 5 }), "inconclusiveLimit"},
		"limits beyond all numbers":               {threshold(func(d *Definition) { d.InconclusiveLimit = 1<<31 - 1 }), "inconclusiveLimit"},
		"a negative inconclusive limit":           {threshold(func(d *Definition) { d.InconclusiveLimit = -1 }), "inconclusiveLimit"},
		"an unknown policy":                       {threshold(func(d *Definition) { d.NoData = &PolicyDefinition{Policy: "Ignore"} }), "noData.policy"},
		"an error that passes":                    {threshold(func(d *Definition) { d.Error = &PolicyDefinition{Policy: "Pass"} }), "error.policy"},
		"a deadline below the interval":           {threshold(func(d *Definition) { d.Error = &PolicyDefinition{Deadline: "10s"} }), "error.deadline"},
		"a deadline that is not used":             {threshold(func(d *Definition) { d.NoData = &PolicyDefinition{Policy: "Pass", Deadline: "5m"} }), "noData.deadline"},
		"no query":                                {threshold(func(d *Definition) { d.Query = "" }), "query"},
		"an argument that is missing":             {threshold(func(d *Definition) { d.Query = "up{ns='{{args.ns}}'}" }), "query"},
		"braces that are no argument":             {threshold(func(d *Definition) { d.Query = "up{{ns}}" }), "query"},
		"braces that do not end":                  {threshold(func(d *Definition) { d.Query = "up{{args.ns" }), "query"},
		"an unknown reducer":                      {threshold(func(d *Definition) { d.Reduce = "last" }), "reduce"},
		"no rule":                                 {threshold(func(d *Definition) { d.PassWhen, d.FailWhen = "", "" }), "passWhen"},
		"a rule that is wrong":                    {threshold(func(d *Definition) { d.FailWhen = "value <" }), "failWhen"},
		"minSamples without a number":             {threshold(func(d *Definition) { d.MinSamples = &MinSamplesDefinition{Query: "a"} }), "minSamples"},
		"minSamples without a query":              {threshold(func(d *Definition) { d.MinSamples = &MinSamplesDefinition{AtLeast: 1} }), "minSamples"},
		"minSamples with a missing argument":      {threshold(func(d *Definition) { d.MinSamples = &MinSamplesDefinition{Query: "{{args.a}}", AtLeast: 1} }), "minSamples.query"},
		"a comparison with a rule":                {aComparison(func(d *Definition) { d.PassWhen = "true" }), "compare"},
		"a comparison with a failure limit":       {aComparison(func(d *Definition) { d.FailureLimit = 1 }), "failureLimit"},
		"a comparison with a window":              {aComparison(func(d *Definition) { d.Window = "1m" }), "window"},
		"a comparison of nothing":                 {compare(func(c *CompareDefinition) { c.Counts = nil }), "compare"},
		"a comparison of both":                    {compare(func(c *CompareDefinition) { c.Latency = &LatencyDefinition{} }), "compare"},
		"alpha of 1":                              {compare(func(c *CompareDefinition) { c.Alpha = 1 }), "compare.alpha"},
		"a tolerated ratio of 0.1":                {compare(func(c *CompareDefinition) { c.TolerateRatio = 0.1 }), "compare.tolerateRatio"},
		"a ratio of 1 to rule out":                {compare(func(c *CompareDefinition) { c.PassAfter.MaxRatio = 1 }), "compare.passAfter.maxRatio"},
		"a ratio below what is tolerated":         {compare(func(c *CompareDefinition) { c.TolerateRatio = 2 }), "compare.passAfter.maxRatio"},
		"no samples":                              {compare(func(c *CompareDefinition) { c.PassAfter.Samples = 0 }), "compare.passAfter.samples"},
		"a count without passAfter":               {aComparison(func(d *Definition) { d.Count, d.Compare.PassAfter = 10, nil }), "count"},
		"a missing query":                         {compare(func(c *CompareDefinition) { c.Counts.StableBad = "" }), "compare.counts.stableBad"},
		"windows that overlap":                    {compare(func(c *CompareDefinition) { c.Counts.StableBad = "increase(errors[5m])" }), "compare.counts.stableBad"},
		"counters without a range":                {compare(func(c *CompareDefinition) { c.Counts.CanaryTotal = "sum(requests_total)" }), "compare.counts.canaryTotal"},
		"counters over no more than the interval": {compare(func(c *CompareDefinition) { c.Counts.CanaryTotal = "requests_total[30s]" }), "compare.counts.canaryTotal"},
		"a quantile of 99":                        {aLatency(func(d *Definition) { d.Compare.Latency.Quantile = 99 }), "compare.latency.quantile"},
		"no buckets of the canary":                {aLatency(func(d *Definition) { d.Compare.Latency.Canary = "" }), "compare.latency.canary"},
		"no buckets of the stable group":          {aLatency(func(d *Definition) { d.Compare.Latency.Stable = "" }), "compare.latency.stable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse(c.d, nil)
			var wrong *FieldError
			if !errors.As(err, &wrong) || wrong.Field != c.field {
				t.Fatalf("got %v, want an error about %s", err, c.field)
			}
			if !strings.HasPrefix(err.Error(), c.field+": ") {
				t.Errorf("got %q", err)
			}
		})
	}
}

func TestWhatIsJustAllowed(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]Definition{
		"a metric":                              aDefinition(),
		"one measurement":                       aDefinition(func(d *Definition) { d.Count, d.FailureLimit, d.InconclusiveLimit = 1, 0, 0 }),
		"limits that leave one to pass":         aDefinition(func(d *Definition) { d.FailureLimit, d.InconclusiveLimit = 5, 4 }),
		"no count, and any limits":              aDefinition(func(d *Definition) { d.Count, d.FailureLimit, d.InconclusiveLimit = 0, 100, 100 }),
		"a deadline of one interval":            aDefinition(func(d *Definition) { d.Error = &PolicyDefinition{Policy: "Fail", Deadline: "30s"} }),
		"a comparison":                          aComparison(),
		"a comparison that can only fail":       aComparison(func(d *Definition) { d.Compare.PassAfter = nil }),
		"a comparison with patience":            aComparison(func(d *Definition) { d.Count = 20 }),
		"a comparison of counters":              aComparison(func(d *Definition) { d.Compare.Counts.CanaryBad = "errors_total[6m]" }),
		"a comparison of latency":               aLatency(),
		"a ratio relative to what is tolerated": aComparison(func(d *Definition) { d.Compare.TolerateRatio, d.Compare.PassAfter.MaxRatio = 2, 3 }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Parse(d, nil); err != nil {
				t.Error(err)
			}
		})
	}
}
