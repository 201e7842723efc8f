package world

import (
	"context"

	"sluice.dev/sluice/pkg/analyzer"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/metric"
)

// RunAnalyzer starts an analyzer that may read metrics from these hosts, in the syntax of --metric-hosts. The function
// stop ends it and waits.
func (w *World) RunAnalyzer(ctx context.Context, hosts ...string) (stop func(), err error) {
	a, err := w.NewAnalyzer(ctx, hosts...)
	if err != nil {
		return nil, err
	}
	return w.background(ctx, a.Queue, func(ctx context.Context) error {
		defer a.Metrics.Close()
		return a.Run(ctx)
	}), nil
}

// NewAnalyzer returns an analyzer without starting it. The caller closes its queue and its client of metrics.
func (w *World) NewAnalyzer(ctx context.Context, hosts ...string) (*analyzer.Analyzer, error) {
	allowed, err := metric.ParseHosts(hosts)
	if err != nil {
		return nil, err
	}
	kube, err := kube.NewAnalysisClient(w.As(w.Installation.Analyzer), kube.AnalysisOptions{Cluster: w.Name, Installation: w.Installation, Logger: w.Log})
	if err != nil {
		return nil, err
	}
	q, err := w.Connect(ctx, "analyzer")
	if err != nil {
		return nil, err
	}
	return analyzer.New(analyzer.Options{
		ClusterName: w.Name, Kube: kube, Queue: q, Metrics: metric.New(metric.Options{Hosts: allowed, Logger: w.Log}), ProblemRetry: resync, Logger: w.Log,
	}), nil
}
