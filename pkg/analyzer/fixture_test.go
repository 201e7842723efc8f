package analyzer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"sluice.dev/sluice/pkg/analyzer"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/natsdir"
	"sluice.dev/sluice/test/prometheus"
	"sluice.dev/sluice/test/world"
)

// shared is the cluster of all tests of the package, without watcher and executor.
var shared struct {
	once  sync.Once
	world *world.World
	err   error
	dir   string
	// measuring starts the analyzer of all tests that need a running one. All analyzers in one cluster take each other's work. An analyzer that stops no longer
	// watches the objects that it found missing.
	measuring    sync.Once
	measuringErr error
	stop         func()
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.stop != nil {
		shared.stop()
	}
	if shared.world != nil {
		shared.world.NATS.Close()
		_ = shared.world.Stop()
	}
	_ = natsdir.Remove(shared.dir)
	os.Exit(code)
}

func theWorld(t testing.TB) *world.World {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	shared.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		if shared.dir, shared.err = os.MkdirTemp("", "sluice-analyzer-"); shared.err == nil {
			shared.world, shared.err = world.Start(ctx, shared.dir, world.Options{})
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.world
}

// app is an HTTP exporter with one gauge, success. It sets the timestamps of its samples. Prometheus ends a series without timestamps when a scrape times out,
// as scrapes do on a busy machine.
type app struct {
	address string
	success atomic.Value
}

func startApp(t testing.TB) *app {
	t.Helper()
	a := &app{}
	a.success.Store("1")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# TYPE success gauge\nsuccess %s %d\n", a.success.Load(), time.Now().UnixMilli())
	}))
	t.Cleanup(server.Close)
	a.address = server.Listener.Addr().String()
	return a
}

// release is a Rollout with a measured step, in its own namespace, with its app and its provider.
type release struct {
	*world.World
	t          testing.TB
	namespace  string
	app        *app
	prometheus *prometheus.Server
	queue      *queue.Queue
	// now is the clock of analyzers that the test drives.
	now atomic.Pointer[time.Time]
}

const manifests = `apiVersion: sluice.dev/v1alpha1
kind: AnalysisTemplate
metadata: {name: success}
spec:
  args:
  - {name: prometheus}
  metrics:
  - name: success
    interval: 1s
    count: COUNT
    prometheus: {address: "{{args.prometheus}}", query: "success", timeout: 5s}
    passWhen: value >= 0.99
    failWhen: value < 0.95
---
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: shop}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
  strategy:
    canary:
      enableExtraWorkloadForCanary: true
      steps:
      - replicas: 1
        analysis:
          templates: [{name: success}]
          args: [{name: prometheus, value: "ADDRESS"}]
`

// aRelease returns a release that is measured count times.
func aRelease(t testing.TB, count int) *release {
	t.Helper()
	w := theWorld(t)
	r := &release{World: w, t: t, namespace: w.Namespace(t), app: startApp(t), prometheus: prometheus.ForTest(t, prometheus.Options{Dir: t.TempDir(), Interval: 100 * time.Millisecond})}
	if err := r.prometheus.Scrape(prometheus.Target{Address: r.app.address}); err != nil {
		t.Fatal(err)
	}
	r.scraped()
	var err error
	if r.queue, err = w.Connect(t.Context(), "tester"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.queue.Close)
	r.apply(count)
	now := time.Now().Add(10 * time.Second) // all samples scraped meanwhile are in the past
	r.now.Store(&now)
	r.analysed(func(run *api.AnalysisRun) {})
	return r
}

func (r *release) scraped() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Minute)
	defer cancel()
	if err := r.prometheus.Scraped(ctx, r.app.address); err != nil {
		r.t.Fatal(err)
	}
}

func (r *release) apply(count int) {
	r.t.Helper()
	text := manifests
	for from, to := range map[string]string{"COUNT": strconv.Itoa(count), "ADDRESS": r.prometheus.Address} {
		text = replace(text, from, to)
	}
	r.Apply(r.t, r.namespace, text)
}

// analysed writes into the status what an executor writes when it starts the analysis of a step.
func (r *release) analysed(change func(*api.AnalysisRun)) {
	r.t.Helper()
	begun := metav1.NewMicroTime(time.Now())
	renew := metav1.NewMicroTime(r.now.Load().Add(30 * time.Second))
	run := &api.AnalysisRun{Phase: api.AnalysisRunning, Message: "Nothing has been measured yet.", Epoch: 1, Step: 1, PauseSeq: 1, StartedAt: &begun, RoutedAt: &begun, RenewBy: &renew}
	change(run)
	r.status(func(s *api.RolloutStatus) {
		s.Phase = api.PhaseProgressing
		s.Sluice = &api.SluiceStatus{Epoch: 1, Step: 1, State: string(rollout.StateAnalysis), PauseSeq: run.PauseSeq, Since: &begun}
		s.Analysis = &api.AnalysisStatus{Step: run}
	})
}

// status changes the status as the executor.
func (r *release) status(change func(*api.RolloutStatus)) {
	r.t.Helper()
	client, err := dynamic.NewForConfig(r.As(api.DefaultExecutor))
	if err != nil {
		r.t.Fatal(err)
	}
	rollouts := client.Resource(api.RolloutResource()).Namespace(r.namespace)
	u, err := rollouts.Get(r.t.Context(), "shop", metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	var object api.Rollout
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &object); err != nil {
		r.t.Fatal(err)
	}
	change(&object.Status)
	body, err := json.Marshal(object.Status)
	if err != nil {
		r.t.Fatal(err)
	}
	var status map[string]any
	if err := json.Unmarshal(body, &status); err != nil {
		r.t.Fatal(err)
	}
	u.Object["status"] = status
	if _, err := rollouts.UpdateStatus(r.t.Context(), u, metav1.UpdateOptions{FieldManager: api.FieldManager}); err != nil {
		r.t.Fatal(err)
	}
}

// run returns the run of the status.
func (r *release) run() *api.AnalysisRun {
	r.t.Helper()
	u := r.Object(r.t, r.namespace, "rollout", "shop")
	var object api.Rollout
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &object); err != nil {
		r.t.Fatal(err)
	}
	return object.Status.Analysis.Step
}

func (r *release) key() queue.Key {
	return queue.Key{Cluster: r.Name, Namespace: r.namespace, Name: "shop", Task: queue.TaskAnalysis}
}

func (r *release) hosts() string {
	host, _, err := net.SplitHostPort(r.prometheus.Address[len("http://"):])
	if err != nil {
		r.t.Fatal(err)
	}
	return host
}

// analyzer returns an analyzer that the test drives, with the clock of the release.
func (r *release) analyzer() *analyzer.Analyzer {
	r.t.Helper()
	a, err := r.NewAnalyzer(r.t.Context(), r.hosts())
	if err != nil {
		r.t.Fatal(err)
	}
	a.At(func() time.Time { return *r.now.Load() })
	r.t.Cleanup(func() { a.Metrics.Close(); a.Queue.Close() })
	return a
}

// later moves the clock.
func (r *release) later(to time.Time) { r.now.Store(&to) }

// measured counts the events of measurements.
func (r *release) measured() int { return distinct(r.events(event.TypeMeasured)) }

// verdicts counts the events of verdicts. On a busy machine Prometheus may leave a measurement of the metric unanswered. Then verdicts omits the events that
// hold the analysis and resume it.
func (r *release) verdicts(m api.MetricStatus) int {
	r.t.Helper()
	all := r.events(event.TypeVerdict)
	if unanswered(m) == 0 {
		return distinct(all)
	}
	return distinct(slices.DeleteFunc(all, func(e event.Event) bool {
		var v event.Verdict
		if err := json.Unmarshal(e.Data(), &v); err != nil {
			r.t.Fatal(err)
		}
		return v.To == string(api.AnalysisWaiting) || v.To == string(api.AnalysisRunning)
	}))
}

// distinct counts events. An event that NATS stored twice counts once.
func distinct(events []event.Event) int {
	ids := map[string]bool{}
	for _, e := range events {
		ids[e.ID()] = true
	}
	return len(ids)
}

func (r *release) events(kind string) (list []event.Event) {
	r.t.Helper()
	for e, err := range r.queue.ReadEvents(r.t.Context(), queue.ReadOptions{Cluster: r.Name, Namespace: r.namespace}) {
		if err != nil {
			r.t.Fatal(err)
		}
		if e.Type() == kind {
			list = append(list, e)
		}
	}
	return list
}

// measurement returns the last reported measurement with an outcome, without the time.
func (r *release) measurement(outcome string) event.Measured {
	r.t.Helper()
	var last event.Measured
	for _, e := range r.events(event.TypeMeasured) {
		m, err := event.ParseMeasured(e)
		if err != nil {
			r.t.Fatal(err)
		}
		if m.Outcome == outcome {
			last = m
		}
	}
	last.UID, last.Window = "", event.Window{}
	return last
}

// about returns the description of the analysis in all measurements of the release.
func (r *release) about() event.Analysis {
	return event.Analysis{Cluster: r.Name, Namespace: r.namespace, Name: "shop", Scope: "step", PauseSeq: 1,
		Release: &event.Release{Epoch: 1}, Step: &event.Step{Index: 1, Of: 1, Replicas: "1"}}
}
