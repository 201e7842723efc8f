package analysis

import (
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// BenchmarkMeasurement measures the cost of a measurement without the query and the storage. It reads and writes the state.
func BenchmarkMeasurement(b *testing.B) {
	rule, err := ParseMetric(aDefinition(func(d *api.Metric) { d.Count = 0 }), nil)
	if err != nil {
		b.Fatal(err)
	}
	compare, err := ParseMetric(aComparison(func(d *api.Metric) { d.Compare.PassAfter, d.Compare.LongestBurst = nil, "" }), nil)
	if err != nil {
		b.Fatal(err)
	}
	learned := NewState(begin())
	learned.Evidence = &Evidence{Past: NewPast(hour(), compare.Interval, compare.Compare.LongestBurst), Tolerate: 1}
	for name, c := range map[string]struct {
		spec    Metric
		state   State
		answers Answers
	}{"rule": {rule, NewState(begin()), Answers{Value: vector(0.995)}}, "comparison": {compare, learned, requests(1, 500, 1, 500)}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			data, err := c.state.Encode()
			if err != nil {
				b.Fatal(err)
			}
			at := begin().Add(time.Hour)
			for b.Loop() {
				s, err := DecodeState(data)
				if err != nil {
					b.Fatal(err)
				}
				at = at.Add(c.spec.Interval)
				s, _ = NextState(s, c.spec.Measure(at, c.answers), c.spec, at)
				if data, err = s.Encode(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(data)), "bytes/state")
		})
	}
}

// BenchmarkParse measures the cost of parsing a metric.
func BenchmarkParse(b *testing.B) {
	d := aDefinition()
	for b.Loop() {
		if _, err := ParseMetric(d, nil); err != nil {
			b.Fatal(err)
		}
	}
}
