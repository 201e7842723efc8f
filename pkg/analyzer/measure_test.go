package analyzer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/metric"
)

// provider answers every query with the query as its value, except for a query that waits.
type provider struct {
	*httptest.Server
	// waiting receives each query that waits. Such a query ends with its request.
	waiting chan string
}

func startProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{waiting: make(chan string, 10)}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.FormValue("query")
		if query == "wait" {
			p.waiting <- query
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"scalar","result":[%s,"%s"]}}`, r.FormValue("time"), query)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) asks(query string) func(*api.Metric) {
	return func(d *api.Metric) {
		d.Prometheus.Address, d.Prometheus.Query, d.Prometheus.Timeout = p.URL, api.PromQL(query), "1m"
	}
}

// vault holds Secrets, or a fault.
type vault struct {
	kubeClient
	secret func() (map[string][]byte, error)
}

func (v vault) ReadSecret(context.Context, types.NamespacedName) (map[string][]byte, error) {
	return v.secret()
}

func anAnalyzer(t *testing.T) *Analyzer {
	t.Helper()
	hosts, err := metric.ParseHosts([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	client := metric.New(metric.Options{Hosts: hosts})
	t.Cleanup(client.Close)
	return New(Options{Metrics: client, Clock: func() time.Time { return noon().Add(30 * time.Second) }})
}

func aView() *kube.AnalysisView { return &kube.AnalysisView{Rollout: &api.Rollout{}} }

// found returns the outcomes of the counted measurements, by metric.
func (t *task) found() map[string]analysis.Outcome {
	list := map[string]analysis.Outcome{}
	for _, c := range t.counted {
		list[c.metric.Name] = c.verdict.Measured.Outcome
	}
	return list
}

func TestWhatIsDueIsMeasuredTogether(t *testing.T) {
	t.Parallel()
	p, a := startProvider(t), anAnalyzer(t)
	step, whole := aTask(aMetric(t, "a", p.asks("1")), aMetric(t, "b", p.asks("0.7"))), aTask(aMetric(t, "c", p.asks("1")))
	if err := a.measureDue(t.Context(), aView(), []*task{step, whole}); err != nil {
		t.Fatal(err)
	}
	want := []map[string]analysis.Outcome{{"a": pass, "b": between}, {"c": pass}}
	if diff := cmp.Diff(want, []map[string]analysis.Outcome{step.found(), whole.found()}); diff != "" {
		t.Error(diff)
	}
}

// A comparison reads the hours before the release with its first measurement, and then knows them.
func TestTheTimeBeforeAReleaseIsReadOnce(t *testing.T) {
	t.Parallel()
	var lock sync.Mutex
	var ranges []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/query") {
			fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[%s,"500"]}]}}`, r.FormValue("time"))
			return
		}
		var start, end, step float64
		if _, err := fmt.Sscan(r.FormValue("start")+" "+r.FormValue("end")+" "+r.FormValue("step"), &start, &end, &step); err != nil {
			t.Error(err)
		}
		lock.Lock()
		ranges = append(ranges, fmt.Sprintf("%s over %g s in steps of %g s", r.FormValue("query"), end-start, step))
		lock.Unlock()
		var points []string
		for at := start; at <= end; at += step {
			points = append(points, fmt.Sprintf(`[%.0f,"500"]`, at))
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[%s]}]}}`, strings.Join(points, ","))
	}))
	t.Cleanup(server.Close)
	a, now := anAnalyzer(t), noon()
	a.Clock = func() time.Time { return now }
	task := aTask(aMetric(t, "errors", func(d *api.Metric) {
		d.Count, d.InconclusiveLimit, d.PassWhen, d.FailWhen, d.Prometheus = 0, 0, "", "", api.Prometheus{Address: server.URL}
		d.Compare = &api.Compare{Counts: &api.CompareCounts{
			CanaryBad: "increase(cb[30s])", CanaryTotal: "increase(ct[30s])", StableBad: "increase(sb[30s])", StableTotal: "increase(st[30s])",
		}}
	}))
	for _, now = range []time.Time{noon().Add(time.Minute), noon().Add(90 * time.Second), noon().Add(2 * time.Minute)} {
		if err := a.measureDue(t.Context(), aView(), asTasks(task)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"increase(sb[30s]) over 21600 s in steps of 30 s", "increase(st[30s]) over 21600 s in steps of 30 s"}, ranges); diff != "" {
		t.Error(diff)
	}
	if e := task.states[0].Evidence; len(task.counted) != 3 || e == nil || e.Ticks != 3 || !e.Past.IsEnough() {
		t.Errorf("%d measurements counted, with the evidence %+v", len(task.counted), e)
	}
}

func TestASlowMetricKeepsNoFailureWaiting(t *testing.T) {
	t.Parallel()
	p, a := startProvider(t), anAnalyzer(t)
	slow, failing := aTask(aMetric(t, "slow", p.asks("wait"))), aTask(aMetric(t, "bad", p.asks("0.1")))
	if err := a.measureDue(t.Context(), aView(), []*task{slow, failing}); err != nil {
		t.Fatal(err)
	}
	want := []map[string]analysis.Outcome{{}, {"bad": fail}}
	if diff := cmp.Diff(want, []map[string]analysis.Outcome{slow.found(), failing.found()}); diff != "" {
		t.Error(diff)
	}
}

// An analyzer that stops in a measurement learns nothing about a release.
func TestAMeasurementThatIsCutShortDoesNotCount(t *testing.T) {
	t.Parallel()
	p, a := startProvider(t), anAnalyzer(t)
	ctx, cancel := context.WithCancel(t.Context())
	task := aTask(aMetric(t, "slow", p.asks("wait")))
	go func() { <-p.waiting; cancel() }()
	if err := a.measureDue(ctx, aView(), asTasks(task)); !errors.Is(err, context.Canceled) {
		t.Errorf("it ends in %v", err)
	}
	if len(task.counted) > 0 {
		t.Errorf("%v counted", task.found())
	}
}

func TestWhatGoesWrongIsAnOutcomeWithAReason(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	secret := func(d *api.Metric) { d.Prometheus.Auth = &api.ProviderAuth{SecretRef: api.SecretRef{Name: "reader"}} }
	elsewhere := func(d *api.Metric) { d.Prometheus.Address = "http://example.com" }
	for name, c := range map[string]struct {
		change       func(*api.Metric)
		secret       func() (map[string][]byte, error)
		reason, says string
	}{
		"a host that is not allowed":   {elsewhere, nil, "not_allowed", "metrics may not be read from this host"},
		"a Secret that is not there":   {secret, func() (map[string][]byte, error) { return nil, errors.New("the Secret reader does not exist") }, "bad_secret", "The Secret reader does not exist."},
		"a Secret that makes no sense": {secret, func() (map[string][]byte, error) { return map[string][]byte{"password": []byte("p")}, nil }, "bad_secret", "no username"},
		"a fault of our own":           {secret, func() (map[string][]byte, error) { panic("ouch") }, "panicked", "ouch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := anAnalyzer(t)
			a.kube = vault{secret: c.secret}
			task := aTask(aMetric(t, "a", p.asks("1"), c.change))
			if err := a.measureDue(t.Context(), aView(), asTasks(task)); err != nil {
				t.Fatal(err)
			}
			got := task.counted[0]
			if diff := cmp.Diff([]string{"error", c.reason}, []string{string(got.verdict.Measured.Outcome), got.reason}); diff != "" {
				t.Error(diff)
			}
			if !strings.Contains(got.verdict.Measured.Message, c.says) {
				t.Errorf("it says %q", got.verdict.Measured.Message)
			}
		})
	}
}
