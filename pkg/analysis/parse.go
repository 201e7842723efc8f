package analysis

import (
	"maps"
	"slices"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// ParseMetric reads a metric of a template with the values of its arguments. In addition to args, it sets the argument interval, as PromQL writes it.
// The error is a [*FieldError] that names the first wrong field.
func ParseMetric(d api.Metric, args map[string]string) (Metric, error) {
	return new(Parser).ParseMetric(d, args)
}

// Parser parses metrics and caches the compiled expressions, because thousands of Rollouts share a few templates. The zero value is ready. It is safe
// for concurrent use.
type Parser struct{ expressions expressionCache }

// ParseMetric is like the function of the same name.
func (p *Parser) ParseMetric(d api.Metric, args map[string]string) (Metric, error) {
	m := Metric{
		Name: d.Name, Count: d.Count, FailureLimit: d.FailureLimit, InconclusiveLimit: d.InconclusiveLimit, DryRun: d.DryRun, Reduce: Reducer(d.Reduce),
	}
	if m.Name == "" {
		return Metric{}, newFieldError("name", "is missing; give the metric a name")
	}
	args = maps.Clone(args)
	if args == nil {
		args = map[string]string{}
	}
	for _, step := range []func(api.Metric, map[string]string) error{m.parseTimes, m.parseProvider, m.parseLimits, m.parsePolicies, m.parseQuery, m.parseSamples, m.parseCompare, m.parseWindow} {
		if err := step(d, args); err != nil {
			return Metric{}, err
		}
	}
	if m.Compare == nil {
		var err error
		if m.Rule, err = p.expressions.newRule(d.PassWhen, d.FailWhen, args); err != nil {
			return Metric{}, err
		}
	}
	return m, nil
}

func (m *Metric) parseTimes(d api.Metric, args map[string]string) (err error) {
	if m.Interval, err = parseDuration("interval", string(d.Interval), 0); err != nil {
		return err
	}
	if m.Interval < time.Second || m.Interval > 24*time.Hour || m.Interval%time.Millisecond != 0 {
		return newFieldError("interval", "is %q; give the time between two measurements, from 1s to 24h", d.Interval)
	}
	args["interval"] = promText(m.Interval)
	m.Settle, err = parseDuration("settle", string(d.Settle), 0)
	return err
}

// parseLimits refuses numbers with which a metric could only fail, only pass, or never end.
func (m *Metric) parseLimits(d api.Metric, _ map[string]string) error {
	tolerated := int64(d.FailureLimit) + int64(d.InconclusiveLimit)
	switch {
	case d.Count < 0:
		return newFieldError("count", "is %d; give the number of measurements, or leave it out to measure as long as the step lasts", d.Count)
	case d.FailureLimit < 0:
		return newFieldError("failureLimit", "is %d; 0 tolerates no failing measurement, which is the least", d.FailureLimit)
	case d.InconclusiveLimit < 0:
		return newFieldError("inconclusiveLimit", "is %d; 0 tolerates no inconclusive measurement, which is the least", d.InconclusiveLimit)
	case d.Compare != nil && (d.FailureLimit > 0 || d.InconclusiveLimit > 0):
		return newFieldError("failureLimit", "and inconclusiveLimit have no meaning in a comparison, which decides by evidence; remove them")
	case d.Count > 0 && d.FailureLimit >= d.Count:
		return newFieldError("failureLimit", "is %d of %d measurements, so the metric could never fail; let it be less than count", d.FailureLimit, d.Count)
	case d.Count > 0 && d.InconclusiveLimit > 0 && tolerated >= int64(d.Count):
		return newFieldError("inconclusiveLimit", "and failureLimit together are %d of %d measurements, so the metric could end without one that passed; let them be less than count",
			tolerated, d.Count)
	}
	return nil
}

func (m *Metric) parsePolicies(d api.Metric, _ map[string]string) (err error) {
	var noData, failed api.NoDataPolicy
	if d.NoData != nil {
		noData = *d.NoData
	}
	if d.Error != nil {
		failed = api.NoDataPolicy(*d.Error)
	}
	if m.NoData, err = m.parsePolicy("noData", noData, 5*time.Minute, Hold, Pass, Fail); err != nil {
		return err
	}
	if failed.Policy == string(Pass) {
		return newFieldError("error.policy", "is Pass, but what could not be measured cannot pass; use Hold or Fail")
	}
	m.Error, err = m.parsePolicy("error", failed, 10*time.Minute, Hold, Fail)
	return err
}

func (m *Metric) parsePolicy(field string, d api.NoDataPolicy, deadline time.Duration, allowed ...Action) (Policy, error) {
	p := Policy{Action: Action(d.Policy)}
	if p.Action == "" {
		p.Action = Hold
	}
	if !slices.Contains(allowed, p.Action) {
		return p, newFieldError(field+".policy", "is %q; use one of %v", d.Policy, allowed)
	}
	if p.Action == Pass && d.Deadline != "" {
		return p, newFieldError(field+".deadline", "is not used with the policy Pass, which passes at once; remove it")
	}
	if p.Action != Hold {
		deadline = 0
	}
	var err error
	if p.Deadline, err = parseDuration(field+".deadline", string(d.Deadline), deadline); err != nil {
		return p, err
	}
	if d.Deadline == "" && p.Action == Hold {
		p.Deadline = max(p.Deadline, 2*m.Interval) // a long interval must not end the default at the first gap
	}
	if d.Deadline != "" && p.Deadline < m.Interval {
		return p, newFieldError(field+".deadline", "is %s, less than the interval of %s, so the first gap would end it; give at least the interval", d.Deadline, formatDuration(m.Interval))
	}
	return p, nil
}

func (m *Metric) parseQuery(d api.Metric, args map[string]string) (err error) {
	if d.Compare != nil {
		if d.Prometheus.Query != "" || d.Reduce != "" || d.PassWhen != "" || d.FailWhen != "" {
			return newFieldError("compare", "cannot be combined with query, reduce, passWhen or failWhen; a metric either compares or has a rule, so make two metrics of it")
		}
		return nil
	}
	if d.Prometheus.Query == "" {
		return newFieldError("prometheus.query", "is missing; give a query, or compare")
	}
	if !slices.Contains(allReducers(), m.Reduce) {
		return newFieldError("reduce", "is %q; use max, min, sum, avg, any or all", d.Reduce)
	}
	m.Query, err = FillArguments("prometheus.query", string(d.Prometheus.Query), args)
	return err
}

func (m *Metric) parseSamples(d api.Metric, args map[string]string) (err error) {
	if d.MinSamples == nil {
		return nil
	}
	if d.MinSamples.Query == "" || !(d.MinSamples.AtLeast > 0) {
		return newFieldError("minSamples", "needs a query that counts requests, and atLeast above 0")
	}
	m.MinSamples = &MinSamples{AtLeast: d.MinSamples.AtLeast}
	m.MinSamples.Query, err = FillArguments("minSamples.query", string(d.MinSamples.Query), args)
	return err
}

// parseWindow sets how far back the queries look. A comparison counts each request once, so it looks back over exactly one interval.
func (m *Metric) parseWindow(d api.Metric, _ map[string]string) (err error) {
	if m.Compare != nil {
		if d.Window != "" {
			return newFieldError("window", "has no meaning in a comparison, which counts each request once: over the interval; remove it")
		}
		m.Window = m.Interval
		return nil
	}
	longest := QueryLookback(m.Query)
	if m.MinSamples != nil {
		longest = max(longest, QueryLookback(m.MinSamples.Query))
	}
	m.Window, err = parseDuration("window", string(d.Window), longest)
	return err
}

// parseDuration reads a field that may be absent.
func parseDuration(field, text string, absent time.Duration) (time.Duration, error) {
	if text == "" {
		return absent, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, newFieldError(field, "is %q; write a duration such as 30s or 5m", text)
	}
	return d, nil
}
