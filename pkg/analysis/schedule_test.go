package analysis

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice.dev/sluice/pkg/api"
)

func TestTimesOfAKeyFormAFixedRate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		interval := time.Duration(rapid.Int64Range(1000, 3_600_000).Draw(t, "interval")) * time.Millisecond
		start := begin().Add(time.Duration(rapid.Int64Range(-1e15, 1e15).Draw(t, "start")))
		key := rapid.String().Draw(t, "key")
		at := NextAt(start, interval, key)
		if at.Before(start) || !at.Before(start.Add(interval)) {
			t.Fatalf("%s is not the first after %s", at, start)
		}
		if again := NextAt(at, interval, key); !again.Equal(at) {
			t.Fatalf("%s is no time of its own: %s", at, again)
		}
		if next := NextAt(at.Add(1), interval, key); !next.Equal(at.Add(interval)) {
			t.Fatalf("after %s comes %s", at, next)
		}
	})
}

func TestKeysAreSpreadOverTheInterval(t *testing.T) {
	t.Parallel()
	var tenths [10]int
	for i := range 10_000 {
		at := NextAt(begin(), 30*time.Second, fmt.Sprintf("uid-%d/1/2/errors", i))
		tenths[at.Sub(begin())/(3*time.Second)]++
	}
	for i, n := range tenths {
		if n < 800 || n > 1200 {
			t.Errorf("tenth %d of the interval has %d of 10000", i, n)
		}
	}
}

func TestWhenTheNextMeasurementIsDue(t *testing.T) {
	t.Parallel()
	spec := parsed(t, aDefinition(func(d *api.Metric) { d.Settle = "10s" }))
	slot := func(at time.Time) time.Time { return NextAt(at, spec.Interval, "key") }
	first := slot(begin().Add(70 * time.Second))
	measured := NewState(begin())
	measured.LastAt = first
	ended := measured
	ended.Ended = true
	for name, c := range map[string]struct {
		state State
		now   time.Time
		want  time.Time
	}{
		"the first, once its window holds new traffic only": {NewState(begin()), begin(), first},
		"the next":                               {measured, first, first.Add(30 * time.Second)},
		"one that is overdue":                    {measured, first.Add(50 * time.Second), first.Add(30 * time.Second)},
		"the latest of several that were missed": {measured, first.Add(100 * time.Second), first.Add(90 * time.Second)},
		"after the traffic changed again":        {measured.TrafficChanged(first), first, slot(first.Add(70 * time.Second))},
		"none, when it has ended":                {ended, first, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, NextDue(c.state, spec, "key", c.now)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHowFarQueriesLookBack(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]time.Duration{
		`up`:                                  0,
		`rate(a[1m]) / rate(b[5m])`:           5 * time.Minute,
		`rate(a[1h30m])`:                      90 * time.Minute,
		`rate(a[ 90s ])`:                      90 * time.Second,
		`increase(a[500ms])`:                  500 * time.Millisecond,
		`rate(a[1m] offset 10m)`:              11 * time.Minute,
		`max_over_time(rate(a[1m])[10m:30s])`: 11 * time.Minute,
		`max_over_time(rate(a[1m])[10m:])`:    11 * time.Minute,
		`rate(a{path="/x[9h]"}[1m])`:          time.Minute,
		`rate(a{path='\'[9h]'}[1m])`:          time.Minute,
		"rate(a{path=`[9h]`}[1m])":            time.Minute,
		"rate(a[1m]) # not [9h]":              time.Minute,
		`rate(a{p=~"[a-z]"}[1w])`:             7 * 24 * time.Hour,
		`rate(a[1d]) + rate(a[1y])`:           365 * 24 * time.Hour,
	} {
		if got := QueryLookback(query); got != want {
			t.Errorf("%s looks back over %s, want %s", query, got, want)
		}
	}
}
