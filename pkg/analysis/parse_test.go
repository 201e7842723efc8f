package analysis

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
)

func TestWhatIsReadFromADefinition(t *testing.T) {
	t.Parallel()
	d := aDefinition(func(d *api.Metric) {
		d.Interval, d.Settle = "90s", "5s"
		d.Prometheus.Query = `sum(rate(ok{ns="{{args.namespace}}"}[{{ args.interval }}])) / sum(rate(all[2m]))`
		d.MinSamples = &api.MinSamples{Query: "sum(increase(all[3m]))", AtLeast: 100}
		d.NoData = &api.NoDataPolicy{Policy: "Fail"}
		d.Error = &api.ErrorPolicy{Deadline: "15m"}
		d.Prometheus.Address, d.Prometheus.Timeout = "http://p.{{args.namespace}}.svc", "20s"
		d.Prometheus.Headers = []api.ProviderHeader{{Name: "X-Scope-OrgID", Value: "{{args.namespace}}"}}
		d.Prometheus.Auth = &api.ProviderAuth{SecretRef: api.SecretRef{Name: "reader"}}
	})
	m, err := ParseMetric(d, map[string]string{"namespace": "shop"})
	if err != nil {
		t.Fatal(err)
	}
	m.Rule = nil
	want := Metric{
		Name: "success-rate", Interval: 90 * time.Second, Count: 10, FailureLimit: 1, InconclusiveLimit: 2, Settle: 5 * time.Second, Window: 3 * time.Minute,
		MinSamples: &MinSamples{Query: "sum(increase(all[3m]))", AtLeast: 100},
		NoData:     Policy{Action: Fail}, Error: Policy{Action: Hold, Deadline: 15 * time.Minute},
		Query:   `sum(rate(ok{ns="shop"}[90s])) / sum(rate(all[2m]))`,
		Address: "http://p.shop.svc", Headers: map[string]string{"X-Scope-OrgID": "shop"}, Secret: "reader", Timeout: 20 * time.Second,
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
	threshold := func(change func(*api.Metric)) api.Metric { return aDefinition(change) }
	compare := func(change func(*api.Compare)) api.Metric {
		return aComparison(func(d *api.Metric) { change(d.Compare) })
	}
	for name, c := range map[string]struct {
		d     api.Metric
		field string
	}{
		"no name":                                 {threshold(func(d *api.Metric) { d.Name = "" }), "name"},
		"no interval":                             {threshold(func(d *api.Metric) { d.Interval = "" }), "interval"},
		"an interval without a unit":              {threshold(func(d *api.Metric) { d.Interval = "30" }), "interval"},
		"an interval with a blank":                {threshold(func(d *api.Metric) { d.Interval = "3 s" }), "interval"},
		"an interval below a second":              {threshold(func(d *api.Metric) { d.Interval = "10ms" }), "interval"},
		"a negative settle":                       {threshold(func(d *api.Metric) { d.Settle = "-5s" }), "settle"},
		"a window that is no duration":            {threshold(func(d *api.Metric) { d.Window = "long" }), "window"},
		"a negative count":                        {threshold(func(d *api.Metric) { d.Count = -1 }), "count"},
		"a failure limit that cannot fire":        {threshold(func(d *api.Metric) { d.FailureLimit = 10 }), "failureLimit"},
		"a negative failure limit":                {threshold(func(d *api.Metric) { d.FailureLimit = -1 }), "failureLimit"},
		"limits that together let none pass":      {threshold(func(d *api.Metric) { d.FailureLimit, d.InconclusiveLimit = 5, 5 }), "inconclusiveLimit"},
		"limits beyond all numbers":               {threshold(func(d *api.Metric) { d.InconclusiveLimit = 1<<31 - 1 }), "inconclusiveLimit"},
		"a negative inconclusive limit":           {threshold(func(d *api.Metric) { d.InconclusiveLimit = -1 }), "inconclusiveLimit"},
		"an unknown policy":                       {threshold(func(d *api.Metric) { d.NoData = &api.NoDataPolicy{Policy: "Ignore"} }), "noData.policy"},
		"an error that passes":                    {threshold(func(d *api.Metric) { d.Error = &api.ErrorPolicy{Policy: "Pass"} }), "error.policy"},
		"a deadline below the interval":           {threshold(func(d *api.Metric) { d.Error = &api.ErrorPolicy{Deadline: "10s"} }), "error.deadline"},
		"a deadline that is not used":             {threshold(func(d *api.Metric) { d.NoData = &api.NoDataPolicy{Policy: "Pass", Deadline: "5m"} }), "noData.deadline"},
		"no address":                              {threshold(func(d *api.Metric) { d.Prometheus.Address = "" }), "prometheus.address"},
		"an address that is none":                 {threshold(func(d *api.Metric) { d.Prometheus.Address = "p.shop.svc" }), "prometheus.address"},
		"an address with a missing argument":      {threshold(func(d *api.Metric) { d.Prometheus.Address = "http://{{args.p}}" }), "prometheus.address"},
		"a header with a missing argument":        {threshold(func(d *api.Metric) { d.Prometheus.Headers = []api.ProviderHeader{{Name: "X", Value: "{{args.p}}"}} }), "prometheus.headers[X].value"},
		"a timeout beyond a minute":               {threshold(func(d *api.Metric) { d.Prometheus.Timeout = "61s" }), "prometheus.timeout"},
		"a timeout of no time":                    {threshold(func(d *api.Metric) { d.Prometheus.Timeout = "0s" }), "prometheus.timeout"},
		"no query":                                {threshold(func(d *api.Metric) { d.Prometheus.Query = "" }), "prometheus.query"},
		"an argument that is missing":             {threshold(func(d *api.Metric) { d.Prometheus.Query = "up{ns='{{args.ns}}'}" }), "prometheus.query"},
		"braces that are no argument":             {threshold(func(d *api.Metric) { d.Prometheus.Query = "up{{ns}}" }), "prometheus.query"},
		"braces that do not end":                  {threshold(func(d *api.Metric) { d.Prometheus.Query = "up{{args.ns" }), "prometheus.query"},
		"an unknown reducer":                      {threshold(func(d *api.Metric) { d.Reduce = "last" }), "reduce"},
		"no rule":                                 {threshold(func(d *api.Metric) { d.PassWhen, d.FailWhen = "", "" }), "passWhen"},
		"a rule that is wrong":                    {threshold(func(d *api.Metric) { d.FailWhen = "value <" }), "failWhen"},
		"minSamples without a number":             {threshold(func(d *api.Metric) { d.MinSamples = &api.MinSamples{Query: "a"} }), "minSamples"},
		"minSamples without a query":              {threshold(func(d *api.Metric) { d.MinSamples = &api.MinSamples{AtLeast: 1} }), "minSamples"},
		"minSamples with a missing argument":      {threshold(func(d *api.Metric) { d.MinSamples = &api.MinSamples{Query: "{{args.a}}", AtLeast: 1} }), "minSamples.query"},
		"a comparison with a rule":                {aComparison(func(d *api.Metric) { d.PassWhen = "true" }), "compare"},
		"a comparison with a failure limit":       {aComparison(func(d *api.Metric) { d.FailureLimit = 1 }), "failureLimit"},
		"a comparison with a window":              {aComparison(func(d *api.Metric) { d.Window = "1m" }), "window"},
		"a comparison of nothing":                 {compare(func(c *api.Compare) { c.Counts = nil }), "compare"},
		"a comparison of both":                    {compare(func(c *api.Compare) { c.Latency = &api.CompareLatency{} }), "compare"},
		"alpha of 1":                              {compare(func(c *api.Compare) { c.Alpha = 1 }), "compare.alpha"},
		"a tolerated ratio of 0.1":                {compare(func(c *api.Compare) { c.TolerateRatio = 0.1 }), "compare.tolerateRatio"},
		"bursts of two hours":                     {compare(func(c *api.Compare) { c.LongestBurst = "2h" }), "compare.longestBurst"},
		"bursts of less than nothing":             {compare(func(c *api.Compare) { c.LongestBurst = "-1s" }), "compare.longestBurst"},
		"a ratio of 1 to rule out":                {compare(func(c *api.Compare) { c.PassAfter.MaxRatio = 1 }), "compare.passAfter.maxRatio"},
		"a ratio below what is tolerated":         {compare(func(c *api.Compare) { c.TolerateRatio = 2 }), "compare.passAfter.maxRatio"},
		"no samples":                              {compare(func(c *api.Compare) { c.PassAfter.Samples = 0 }), "compare.passAfter.samples"},
		"a count without passAfter":               {aComparison(func(d *api.Metric) { d.Count, d.Compare.PassAfter = 10, nil }), "count"},
		"a missing query":                         {compare(func(c *api.Compare) { c.Counts.StableBad = "" }), "compare.counts.stableBad"},
		"windows that overlap":                    {compare(func(c *api.Compare) { c.Counts.StableBad = "increase(errors[5m])" }), "compare.counts.stableBad"},
		"counters without a range":                {compare(func(c *api.Compare) { c.Counts.CanaryTotal = "sum(requests_total)" }), "compare.counts.canaryTotal"},
		"counters over no more than the interval": {compare(func(c *api.Compare) { c.Counts.CanaryTotal = "requests_total[30s]" }), "compare.counts.canaryTotal"},
		"a quantile of 99":                        {aLatency(func(d *api.Metric) { d.Compare.Latency.Quantile = 99 }), "compare.latency.quantile"},
		"no buckets of the canary":                {aLatency(func(d *api.Metric) { d.Compare.Latency.Canary = "" }), "compare.latency.canary"},
		"no buckets of the stable group":          {aLatency(func(d *api.Metric) { d.Compare.Latency.Stable = "" }), "compare.latency.stable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseMetric(c.d, nil)
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
	for name, d := range map[string]api.Metric{
		"a metric":                              aDefinition(),
		"one measurement":                       aDefinition(func(d *api.Metric) { d.Count, d.FailureLimit, d.InconclusiveLimit = 1, 0, 0 }),
		"limits that leave one to pass":         aDefinition(func(d *api.Metric) { d.FailureLimit, d.InconclusiveLimit = 5, 4 }),
		"no count, and any limits":              aDefinition(func(d *api.Metric) { d.Count, d.FailureLimit, d.InconclusiveLimit = 0, 100, 100 }),
		"a deadline of one interval":            aDefinition(func(d *api.Metric) { d.Error = &api.ErrorPolicy{Policy: "Fail", Deadline: "30s"} }),
		"a comparison":                          aComparison(),
		"a comparison that can only fail":       aComparison(func(d *api.Metric) { d.Compare.PassAfter = nil }),
		"a comparison with patience":            aComparison(func(d *api.Metric) { d.Count = 20 }),
		"a comparison of counters":              aComparison(func(d *api.Metric) { d.Compare.Counts.CanaryBad = "errors_total[6m]" }),
		"a comparison of latency":               aLatency(),
		"a ratio relative to what is tolerated": aComparison(func(d *api.Metric) { d.Compare.TolerateRatio, d.Compare.PassAfter.MaxRatio = 2, 3 }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := ParseMetric(d, nil); err != nil {
				t.Error(err)
			}
		})
	}
}
