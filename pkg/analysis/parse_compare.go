package analysis

import (
	"strconv"
	"time"

	"sluice.dev/sluice/pkg/api"
)

func (m *Metric) parseCompare(d api.Metric, args map[string]string) error {
	if d.Compare == nil {
		return nil
	}
	c := &Compare{Alpha: d.Compare.Alpha, Tolerate: d.Compare.TolerateRatio, PassAfter: d.Compare.PassAfter}
	if c.Alpha == 0 {
		c.Alpha = 0.01
	}
	if c.Tolerate == 0 {
		c.Tolerate = 1
	}
	if !(c.Alpha > 0 && c.Alpha <= 0.2) {
		return newFieldError("compare.alpha", "is %g; give the chance of failing a canary that is no worse, above 0 and at most 0.2", c.Alpha)
	}
	if !(c.Tolerate >= 0.5 && c.Tolerate <= 100) {
		return newFieldError("compare.tolerateRatio", "is %g; give how many times the stable group's rate is still fine, from 0.5 to 100", c.Tolerate)
	}
	var err error
	if c.LongestBurst, err = parseDuration("compare.longestBurst", string(d.Compare.LongestBurst), longestBurst); err != nil {
		return err
	}
	if c.LongestBurst > time.Hour {
		return newFieldError("compare.longestBurst", "is %s; give at most 1h, because what lasts longer is how the version behaves", d.Compare.LongestBurst)
	}
	if err := c.checkPassAfter(m.Count); err != nil {
		return err
	}
	m.Compare = c
	switch {
	case d.Compare.Counts != nil && d.Compare.Latency == nil:
		return m.parseCounts(*d.Compare.Counts, args)
	case d.Compare.Latency != nil && d.Compare.Counts == nil:
		return m.parseLatency(*d.Compare.Latency, args)
	}
	return newFieldError("compare", "needs exactly one of counts and latency")
}

// longestBurst is how long bursts of bad requests last unless the template says otherwise.
const longestBurst = 5 * time.Minute

// checkPassAfter checks when a comparison may pass.
func (c *Compare) checkPassAfter(count int32) error {
	p := c.PassAfter
	if p == nil {
		if count > 0 {
			return newFieldError("count", "limits how long a comparison waits for the evidence of passAfter; give passAfter, or remove count")
		}
		return nil
	}
	least, most := c.Tolerate*ratioAt(1), c.Tolerate*ratioAt(likelyRatios)
	if !(p.MaxRatio >= least*0.95 && p.MaxRatio <= most) {
		return newFieldError("compare.passAfter.maxRatio", "is %g; with this tolerateRatio give a ratio from %.2g to %.2g", p.MaxRatio, least, most)
	}
	if !(p.Samples >= 1) {
		return newFieldError("compare.passAfter.samples", "is %g; give the least number of requests to the canary, such as 2000", p.Samples)
	}
	return nil
}

func (m *Metric) parseCounts(d api.CompareCounts, args map[string]string) error {
	for _, q := range []struct {
		field string
		text  *api.PromQL
	}{{"canaryBad", &d.CanaryBad}, {"canaryTotal", &d.CanaryTotal}, {"stableBad", &d.StableBad}, {"stableTotal", &d.StableTotal}} {
		if err := m.fillTickQuery("compare.counts."+q.field, q.text, args); err != nil {
			return err
		}
	}
	m.Compare.Counts = &d
	return nil
}

func (m *Metric) parseLatency(d api.CompareLatency, args map[string]string) error {
	if d.Quantile == 0 {
		d.Quantile = 0.99
	}
	if !(d.Quantile >= 0.5 && d.Quantile < 1) {
		return newFieldError("compare.latency.quantile", "is %g; give the quantile to watch, from 0.5 to below 1", d.Quantile)
	}
	if err := m.fillTickQuery("compare.latency.canary", &d.Canary, args); err != nil {
		return err
	}
	if err := m.fillTickQuery("compare.latency.stable", &d.Stable, args); err != nil {
		return err
	}
	m.Compare.Latency = &d
	return nil
}

// fillTickQuery fills in a query that counts the requests of one interval. A query with a longer range would count requests several times, and give
// false evidence.
func (m *Metric) fillTickQuery(field string, query *api.PromQL, args map[string]string) error {
	if *query == "" {
		return newFieldError(field, "is missing; give a query that counts requests")
	}
	text, err := FillArguments(field, string(*query), args)
	if err != nil {
		return err
	}
	*query = api.PromQL(text)
	back := QueryLookback(text)
	switch {
	case countsOverTime(text) && back != m.Interval:
		return newFieldError(field, "looks back over %s, but each request must be counted once; write [{{args.interval}}], which is %s", formatDuration(back), formatDuration(m.Interval))
	case !countsOverTime(text) && back <= m.Interval:
		return newFieldError(field, "does not count the requests of the last %s; write increase(...[{{args.interval}}]), or counters over a longer range such as requests_total[%s]",
			formatDuration(m.Interval), promText(m.Interval+5*time.Minute))
	}
	return nil
}

// promText writes a duration as PromQL reads it.
func promText(d time.Duration) string {
	if d%time.Second == 0 {
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}
