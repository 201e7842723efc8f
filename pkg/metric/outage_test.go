package metric_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/metric"
)

// A provider fails for a hundred releases at once, and the client sends one notice. The provider answers again, and the client sends one notice. No
// user has to act.
func TestAnOutageAndItsEndAreToldOnce(t *testing.T) {
	t.Parallel()
	var well atomic.Bool
	var asked atomic.Int64
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if !well.Load() {
			says(500, "text/plain", "no space left on device")(w, r)
			return
		}
		says(200, "application/json", one)(w, r)
	})
	var mu sync.Mutex
	var notices []metric.Notice
	c, registry := client(t, func(o *metric.Options) {
		o.Notify = func(n metric.Notice) {
			mu.Lock()
			defer mu.Unlock()
			notices = append(notices, n)
		}
	})
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			for range 5 {
				if _, err := c.Query(t.Context(), at(server.URL)); err == nil {
					t.Error("it answered")
				}
			}
		})
	}
	all.Wait()
	// Queries under way still reach the provider when the breaker opens; a namespace has eight slots.
	if got := asked.Load(); got > 20 {
		t.Errorf("a provider that fails was asked %d times", got)
	}
	_, err := c.Query(t.Context(), at(server.URL))
	if metric.OutcomeOf(err) != metric.Rested || !strings.Contains(err.Error(), "The last trouble was: Prometheus") {
		t.Errorf("the last query ended with: %v", err)
	}
	if got := series(t, registry, "sluice_metric_provider_down"); got != 1 {
		t.Errorf("%d providers are down, not one", got)
	}
	well.Store(true)
	for err != nil { // until its rest of one second is over
		_, err = c.Query(t.Context(), at(server.URL))
	}
	if got := series(t, registry, "sluice_metric_provider_down"); got != 0 {
		t.Errorf("%d providers are down, not none", got)
	}
	mu.Lock()
	defer mu.Unlock()
	var got []bool
	for _, n := range notices {
		got = append(got, n.Down)
		if n.Provider != server.URL || n.Since.IsZero() || !strings.Contains(n.Reason, "no space left") {
			t.Errorf("the notice is %+v", n)
		}
	}
	if diff := cmp.Diff([]bool{true, false}, got); diff != "" {
		t.Error(diff)
	}
}
