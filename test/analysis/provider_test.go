package analysis

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// liar is a provider that gives the answers of a test, and otherwise those from the real Prometheus.
type liar struct {
	*httptest.Server
	lie   atomic.Pointer[http.HandlerFunc]
	asked atomic.Int32
}

func aLiar(t *testing.T) *liar {
	t.Helper()
	target, err := url.Parse(theProvider(t).Address)
	if err != nil {
		t.Fatal(err)
	}
	honest := httputil.NewSingleHostReverseProxy(target)
	l := &liar{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.asked.Add(1)
		if lie := l.lie.Load(); lie != nil {
			(*lie)(w, r)
			return
		}
		honest.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { l.CloseClientConnections(); l.Close() })
	return l
}

func (l *liar) tells(h http.HandlerFunc) { l.lie.Store(&h) }

func (l *liar) honest() { l.lie.Store(nil) }

// An analysis treats each wrong answer as an error. pkg/metric tests them one by one.
func TestAProviderThatCannotBeBelievedHoldsTheRelease(t *testing.T) {
	t.Parallel()
	l := aLiar(t)
	l.tells(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"status":`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	p := plan{templates: []string{success}, provider: l.URL}
	p.steps = []string{"{replicas: 1, traffic: 20%, analysis: " + p.use(t, "success", ", autoPromote: true") + "}"}
	a := start(t, p)
	a.deploy(t, "2")
	r := a.await(t, says(api.AnalysisWaiting))
	if len(r.Status.Analysis.Step.Metrics) != 1 || r.Status.Analysis.Step.Metrics[0].Errors == 0 {
		t.Errorf("the analysis is %+v", r.Status.Analysis.Step)
	}
	a.await(t, world.HeldFor("AnalysisInconclusive"))
	l.honest()
	a.await(t, world.Healthy)
	if got := a.image(t); got != "app:2" {
		t.Errorf("%s runs", got)
	}
}

func TestAPersonMayGoOnWithoutMeasurements(t *testing.T) {
	t.Parallel()
	l := aLiar(t)
	l.tells(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "away", http.StatusServiceUnavailable) })
	p := plan{templates: []string{success}, provider: l.URL}
	p.steps = []string{"{replicas: 1, traffic: 20%, analysis: " + p.use(t, "success", ", autoPromote: true") + "}"}
	a := start(t, p)
	a.deploy(t, "2")
	r := a.await(t, world.HeldFor("AnalysisInconclusive"))
	if !strings.Contains(r.Status.Message, "sluice approve app") {
		t.Errorf("the message is %q", r.Status.Message)
	}
	a.w.Approve(t, a.ns, "app")
	a.await(t, world.Healthy)
}

func TestLowTrafficDecidesNothing(t *testing.T) {
	t.Parallel()
	p := plan{templates: []string{success}, rate: 1}
	p.steps = []string{"{replicas: 1, traffic: 20%, analysis: " + p.use(t, "success", ", autoPromote: true") + "}"}
	a := start(t, p)
	a.becomes(group{bad: 1})
	a.deploy(t, "2")
	r := a.await(t, says(api.AnalysisWaiting))
	if m := r.Status.Analysis.Step.Metrics[0]; m.NoData == 0 || m.Failed > 0 || !strings.Contains(m.Message, "minSamples") {
		t.Errorf("the metric is %+v", m)
	}
	a.await(t, world.HeldFor("AnalysisInconclusive"))
	a.rates(200)
	a.await(t, aborted)
}

// A window that begins before the change of traffic would measure the version before.
func TestNothingIsMeasuredBeforeTheWindowIsPast(t *testing.T) {
	t.Parallel()
	p := plan{templates: []string{success}}
	p.steps = []string{"{replicas: 1, traffic: 20%, analysis: " + p.use(t, "success", "") + "}"}
	a := start(t, p)
	a.deploy(t, "2")
	r := a.await(t, says(api.AnalysisPassed))
	run := r.Status.Analysis.Step
	first := run.Metrics[0].LastTime.Add(-2 * time.Second) // the first of three measurements, a second apart
	if least := run.RoutedAt.Add(2 * time.Second); first.Before(least) {
		t.Errorf("the first measurement was for %s, less than the window of 2s after %s", first, run.RoutedAt)
	}
}
