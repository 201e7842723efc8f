package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestQuantilesAreValuesThatWereMeasured(t *testing.T) {
	t.Parallel()
	upTo := func(n int) (all []time.Duration) {
		for i := n; i > 0; i-- {
			all = append(all, time.Duration(i)*time.Millisecond)
		}
		return all
	}
	for name, c := range map[string]struct {
		all  []time.Duration
		want Latency
	}{
		"nothing":          {nil, Latency{}},
		"one":              {upTo(1), Latency{N: 1, P50: 1, P90: 1, P99: 1, Max: 1}},
		"two":              {upTo(2), Latency{N: 2, P50: 1, P90: 2, P99: 2, Max: 2}},
		"ten out of order": {upTo(10), Latency{N: 10, P50: 5, P90: 9, P99: 10, Max: 10}},
		"a hundred":        {upTo(100), Latency{N: 100, P50: 50, P90: 90, P99: 99, Max: 100}},
		"two hundred":      {upTo(200), Latency{N: 200, P50: 100, P90: 180, P99: 198, Max: 200}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, latency(c.all)); diff != "" {
				t.Errorf("quantiles differ (-want +got):\n%s", diff)
			}
		})
	}
}
