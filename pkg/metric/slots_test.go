package metric_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"sluice.dev/sluice/pkg/metric"
)

// A namespace may run three queries at once, and starts nine. The others wait, and the queries of another namespace do not.
func TestANamespaceHasItsTurnsAndTakesNobodyElses(t *testing.T) {
	t.Parallel()
	const limit, queries = 3, 9
	var running, most atomic.Int64
	arrived, gate := make(chan struct{}, queries), make(chan struct{})
	slow := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		arrived <- struct{}{}
		<-gate
		_, _ = w.Write([]byte(one))
	})
	fast := serve(t, says(200, "application/json", one))
	c, _ := client(t, func(o *metric.Options) { o.PerNamespace = limit })

	var all sync.WaitGroup
	for range queries {
		all.Go(func() {
			if _, err := c.Query(t.Context(), at(slow.URL)); err != nil {
				t.Error(err)
			}
		})
	}
	for range limit {
		<-arrived
	}
	other := at(fast.URL)
	other.Namespace = "other"
	if _, err := c.Query(t.Context(), other); err != nil {
		t.Errorf("another namespace has to wait: %v", err)
	}
	own := at(fast.URL)
	own.Timeout = 20 * time.Millisecond
	_, err := c.Query(t.Context(), own)
	if metric.OutcomeOf(err) != metric.Late || !strings.Contains(err.Error(), "the 3 queries that namespace shop may run at once") {
		t.Errorf("a query too many ended with: %v", err)
	}
	close(gate)
	all.Wait()
	if got := most.Load(); got > limit {
		t.Errorf("%d ran at once, more than %d", got, limit)
	}
}

func TestEachQueryIsCountedByItsOutcome(t *testing.T) {
	t.Parallel()
	c, registry := client(t, nil)
	server := serve(t, says(200, "application/json", one))
	for _, request := range []metric.Request{at(server.URL), at(server.URL), at("file:///etc/passwd")} {
		_, _ = c.Query(t.Context(), request)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, figure := range family.Metric {
			if value := figure.GetCounter().GetValue(); value > 0 {
				got[figure.Label[0].GetValue()] = value
			}
			if family.GetName() == "sluice_metric_query_duration_seconds" {
				got["seconds"] = float64(figure.GetHistogram().GetSampleCount())
			}
		}
	}
	if diff := cmp.Diff(map[string]float64{"answered": 2, "not_allowed": 1, "seconds": 3}, got); diff != "" {
		t.Error(diff)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}
