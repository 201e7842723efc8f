package analysis

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
	provider "sluice.dev/sluice/test/prometheus"
	"sluice.dev/sluice/test/world"
)

// withPast is like the template worse. It learns from the time before the release, and asks a person after 20 measurements that decide nothing.
func withPast() string {
	return strings.NewReplacer("longestBurst: 0s", "passAfter: {samples: 100, maxRatio: 1.5}", "interval: 1s", "interval: 1s\n    count: 20", "name: worse", "name: with-past").Replace(worse)
}

// history exports one application whose stable version has run for hours. share is the share of its bad requests in a minute before now.
type history struct {
	ns    string
	began time.Time
	hours int
	share func(minute int) float64
	// canary is the share of the canary's bad requests.
	canary float64
}

const (
	// perSecond is the number of requests to each version.
	perSecond = 200
	// apart is the time between two samples of the history.
	apart = 15 * time.Second
)

// ServeHTTP writes the counters. All samples of the history have their timestamps, so that Prometheus knows them after the first scrape.
func (h *history) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	now := time.Now()
	write := func(service string, share func(at time.Time) float64, times []time.Time) {
		bad, total, before := 0.0, 0.0, h.began.Add(-time.Duration(h.hours)*time.Hour)
		lines := map[string]*strings.Builder{"500": {}, "200": {}, "0.1": {}, "+Inf": {}}
		for _, at := range times {
			n := perSecond * at.Sub(before).Seconds()
			total, bad, before = total+n, bad+n*share(at), at
			stamp := at.UnixMilli()
			fmt.Fprintf(lines["500"], "http_requests_total{namespace=%q,service=%q,code=\"500\"} %g %d\n", h.ns, service, bad, stamp)
			fmt.Fprintf(lines["200"], "http_requests_total{namespace=%q,service=%q,code=\"200\"} %g %d\n", h.ns, service, total-bad, stamp)
			fmt.Fprintf(lines["0.1"], "http_request_duration_seconds_bucket{namespace=%q,service=%q,le=\"0.1\"} %g %d\n", h.ns, service, total*0.99, stamp)
			fmt.Fprintf(lines["+Inf"], "http_request_duration_seconds_bucket{namespace=%q,service=%q,le=\"+Inf\"} %g %d\n", h.ns, service, total, stamp)
		}
		for _, name := range []string{"500", "200", "0.1", "+Inf"} {
			_, _ = fmt.Fprint(w, lines[name].String())
		}
	}
	var old, fresh []time.Time
	for at := h.began.Add(-time.Duration(h.hours) * time.Hour); at.Before(h.began); at = at.Add(apart) {
		old = append(old, at)
	}
	for at := h.began; !at.After(now); at = at.Add(100 * time.Millisecond) {
		fresh = append(fresh, at)
	}
	stable := func(at time.Time) float64 { return h.share(int(h.began.Sub(at).Minutes())) }
	write("app", stable, append(old, fresh...))
	write("app-canary", func(time.Time) float64 { return h.canary }, fresh)
}

// learns starts a release of an application with a history, and returns it. Its own Prometheus has scraped nothing before.
func learns(t *testing.T, hours int, share func(minute int) float64, canary float64) *app {
	t.Helper()
	h := &history{hours: hours, share: share, canary: canary}
	server := provider.ForTest(t, provider.Options{Interval: 500 * time.Millisecond})
	p := plan{templates: []string{withPast()}, provider: server.Address}
	p.release = p.use(t, "with-past", "")
	p.steps = []string{"{replicas: 1, traffic: 20%}", "{replicas: 2, traffic: 60%}"}
	a := start(t, p)
	h.ns, h.began = a.ns, time.Now()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	exporter := &http.Server{Handler: h, ReadHeaderTimeout: time.Second}
	t.Cleanup(func() { _ = exporter.Close() })
	go func() { _ = exporter.Serve(listener) }()
	if err := server.Scrape(provider.Target{Address: listener.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	if err := server.Scraped(t.Context(), listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	a.deploy(t, "2")
	return a
}

// A comparison learns from the hours before the release how unevenly errors come. If errors came evenly, a canary with twenty times as many stops the release
// at once. If errors came in bursts of minutes, or if the service is new, the comparison decides nothing. The analysis then asks a person, and says why.
func TestTheTimeBeforeTheReleaseDecidesHowSoonACanaryFails(t *testing.T) {
	t.Parallel()
	even := func(int) float64 { return 0.01 }
	t.Run("errors came evenly", func(t *testing.T) {
		t.Parallel()
		a := learns(t, 6, even, 0.2)
		r := a.await(t, aborted)
		if !strings.Contains(r.Status.Message, "worse than the stable group") {
			t.Errorf("the message is %q", r.Status.Message)
		}
	})
	asks := func(word string) world.Goal {
		return func(r *api.Rollout) bool {
			a := r.Status.Analysis
			return a != nil && a.Release != nil && a.Release.Phase == api.AnalysisInconclusive && strings.Contains(a.Release.Message, word)
		}
	}
	t.Run("errors came in bursts of minutes", func(t *testing.T) {
		t.Parallel()
		bursts := func(minute int) float64 {
			if minute/4%5 == 2 {
				return 0.2
			}
			return 0.01
		}
		learns(t, 6, bursts, 0.2).await(t, asks("The canary may be worse than the stable group"))
	})
	t.Run("the service is new", func(t *testing.T) {
		t.Parallel()
		learns(t, 0, even, 0.2).await(t, asks("Nothing is decided yet: the stable group's requests are known for"))
	})
}
