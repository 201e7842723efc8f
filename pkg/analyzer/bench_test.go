package analyzer

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/metric"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/test/natsdir"
)

// still is a cluster in which only the analyzer changes objects.
type still struct {
	metrics []kube.AnalysisMetric
	records map[string]*atomic.Pointer[api.AnalysisRun]
	writes  atomic.Int64
}

func (s *still) ObserveRuns(_ context.Context, name types.NamespacedName, _ bool) (*kube.AnalysisView, error) {
	r := &api.Rollout{}
	r.Namespace, r.Name, r.UID = name.Namespace, name.Name, types.UID(name.Name)
	return &kube.AnalysisView{Rollout: r, Runs: []kube.AnalysisRun{{Scope: kube.ScopeStep, Record: s.records[name.Name].Load(), Metrics: s.metrics}}}, nil
}

func (s *still) WriteRuns(_ context.Context, v *kube.AnalysisView, step, _ *api.AnalysisRun) error {
	s.writes.Add(1)
	s.records[v.Rollout.Name].Store(step)
	return nil
}

func (s *still) ReadSecret(context.Context, types.NamespacedName) (map[string][]byte, error) {
	return nil, nil
}
func (s *still) TrackView(*kube.AnalysisView) {}

// BenchmarkHandle measures once for one of a thousand releases: everything except the watches, with the NATS server in this process.
func BenchmarkHandle(b *testing.B) {
	server, err := embedded.Start(embedded.Options{Dir: natsdir.ForTest(b)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { server.Close() })
	q, err := queue.Connect(b.Context(), queue.Options{URL: server.URL(), User: server.User(), Password: server.Password()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(q.Close)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[%s,"1"]}]}}`, r.FormValue("time"))
	}))
	b.Cleanup(provider.Close)
	hosts, err := metric.ParseHosts([]string{"127.0.0.1"})
	if err != nil {
		b.Fatal(err)
	}
	client := metric.New(metric.Options{Hosts: hosts, PerNamespace: 64})
	b.Cleanup(client.Close)

	const releases = 1000
	s := &still{records: map[string]*atomic.Pointer[api.AnalysisRun]{}, metrics: []kube.AnalysisMetric{
		aMetric(b, "a", func(d *api.Metric) { d.Prometheus.Address, d.Count = provider.URL, 0 }),
	}}
	for i := range releases {
		record := &atomic.Pointer[api.AnalysisRun]{}
		record.Store(aRun().Record)
		s.records[fmt.Sprint("r", i)] = record
	}
	var now atomic.Int64
	a := New(Options{ClusterName: "c", Queue: q, Metrics: client, Clock: func() time.Time { return noon().Add(time.Duration(now.Load())) }})
	a.kube = s
	var n atomic.Int64
	b.SetParallelism(8)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := n.Add(1)
			if i%releases == 0 {
				now.Add(int64(30 * time.Second))
			}
			if r := a.Handle(b.Context(), queue.Key{Cluster: "c", Namespace: "shop", Name: fmt.Sprint("r", i%releases), Task: queue.TaskAnalysis}); r.Err != nil {
				b.Error(r.Err)
			}
		}
	})
	b.StopTimer()
	if phase := s.records["r1"].Load().Phase; b.N > 2*releases && phase != api.AnalysisPassing {
		b.Errorf("it shows %s", phase)
	}
	b.ReportMetric(float64(s.writes.Load())/float64(b.N), "writes/op")
}
