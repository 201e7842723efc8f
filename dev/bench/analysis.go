package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/queue"
)

const (
	// analysesNamespaces is large, because the client limits queries by namespace.
	analysesNamespaces = 100
	analysesTemplate   = "bench"
)

// Analyses is the result for many analyses under way, measured by one analyzer on one core.
type Analyses struct {
	Running         int     `json:"running"`
	IntervalSeconds float64 `json:"intervalSeconds"`
	// Created is the time to write the Rollouts, and FirstSeconds the time until each had its first measurement.
	Created      float64 `json:"createdSeconds"`
	FirstSeconds float64 `json:"firstSeconds"`
	Seconds      float64 `json:"seconds"`
	// PerSecond is the number of measurements per second, as the provider counted them.
	PerSecond float64 `json:"perSecond"`
	// Late is the delay between the due time of a query and its arrival at the provider.
	Late      Latency   `json:"late"`
	Odd       int       `json:"odd"`
	Traffic   *Traffic  `json:"traffic,omitempty"`
	Processes []Process `json:"processes"`
	Load      float64   `json:"load"`
}

// analyses measures an analyzer on one core with the given number of Rollouts whose step is analysed. No executor runs: the bench writes the status of an
// executor, with its identity, so that it measures the analyzer alone.
func (b *bench) analyses(ctx context.Context) (err error) {
	result := &Analyses{Running: b.opts.analyses, IntervalSeconds: b.opts.analysesInterval.Seconds(), Load: loadAverage()}
	p, address, err := startProvider()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	began := time.Now()
	f := layOut(measureAnalysis, b.opts.analyses, min(analysesNamespaces, b.opts.analyses), shape{})
	if err := b.createAnalyses(ctx, f, address); err != nil {
		return err
	}
	result.Created = time.Since(began).Seconds()
	if err := b.runAnalyzer(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.halt()) }()
	began = time.Now()
	if err := b.hintAnalyses(ctx, f); err != nil {
		return err
	}
	if err := b.queried(ctx, p, 1); err != nil {
		return err
	}
	result.FirstSeconds = time.Since(began).Seconds()
	b.report.Analyses = result
	// The analyzer writes the first findings into each status; from the second interval on it only measures.
	if err := b.queried(ctx, p, 2); err != nil {
		return err
	}
	return b.watchAnalyses(ctx, result, p)
}

// queried waits until each analysis has the given number of measurements.
func (b *bench) queried(ctx context.Context, p *provider, often int) error {
	err := until(ctx, "each analysis is measured", func(context.Context) (bool, error) { return p.seen(often) >= b.opts.analyses, nil })
	if err != nil {
		return fmt.Errorf("%w; %d of %d were, %d times", err, p.seen(often), b.opts.analyses, often)
	}
	return nil
}

// watchAnalyses measures for the time of the window. On a busy machine it continues until the window has as many queries as there are analyses.
func (b *bench) watchAnalyses(ctx context.Context, result *Analyses, p *provider) error {
	say("watching %d analyses for %s", result.Running, b.opts.analysesWindow)
	offset, meter, began := b.log.end(), b.meter().forgetPeaks(), time.Now()
	p.take()
	select {
	case <-time.After(b.opts.analysesWindow):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := until(ctx, "the analyses are measured in the window", func(context.Context) (bool, error) { return p.waiting() >= b.opts.analyses, nil }); err != nil {
		return err
	}
	late, odd := p.take()
	result.Seconds = time.Since(began).Seconds()
	result.Processes, _ = meter.read()
	result.PerSecond, result.Late, result.Odd = float64(len(late))/result.Seconds, latency(late), odd
	var err error
	result.Traffic, err = b.log.since(offset)
	return err
}

// createAnalyses creates Rollouts in the state in which their first step is analysed.
func (b *bench) createAnalyses(ctx context.Context, f *rolloutSet, address string) error {
	b.sets = append(b.sets, f)
	say("creating %d Rollouts whose first step is analysed, in %d namespaces", len(f.rollouts), len(f.namespaces))
	config, err := clientcmd.BuildConfigFromFlags("", b.kubeconfigs["executor"])
	if err != nil {
		return err
	}
	executor, err := newClient(config, userAgent)
	if err != nil {
		return err
	}
	if err := b.client.create(ctx, templatesPath+"/clusteranalysistemplates", analysisTemplate(address, b.opts.analysesInterval)); err != nil {
		return err
	}
	for _, namespace := range f.namespaces {
		if err := createNamespace(ctx, b.client, namespace); err != nil {
			return err
		}
	}
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, m := range f.rollouts {
		group.Go(func() error {
			path := collection(rolloutsPath, m.namespace, "rollouts")
			if err := b.client.create(creating, path, analysedRollout(f.name, m.name)); err != nil {
				return err
			}
			return executor.setStatus(creating, path+"/"+m.name, analysing(time.Now()))
		})
	}
	return group.Wait()
}

// runAnalyzer starts an analyzer on one core.
func (b *bench) runAnalyzer(ctx context.Context) error {
	say("starting one analyzer with GOMAXPROCS=1")
	command := exec.Command(filepath.Join(b.opts.bin, "analyzer"), append(b.partFlags("analyzer"), "--metric-hosts", "127.0.0.1")...)
	command.Env = append(os.Environ(), "NATS_PASSWORD="+b.natsAt.Password, "GOMAXPROCS=1")
	p, err := startPart(ctx, b.dir, "analyzer-alone", command, serving)
	if err != nil {
		return err
	}
	b.parts = append(b.parts, p)
	return p.awaitReady(ctx)
}

// hintAnalyses publishes a hint to the analyzer for each Rollout, as executors and watchers do.
func (b *bench) hintAnalyses(ctx context.Context, f *rolloutSet) error {
	q, err := queue.Connect(ctx, queue.Options{URL: b.natsAt.URL, User: b.natsAt.User, Password: b.natsAt.Password, Replicas: 1,
		Name: userAgent, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer q.Close()
	group, hinting := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, m := range f.rollouts {
		group.Go(func() error {
			return q.PublishHint(hinting, queue.Key{Cluster: "default", Namespace: m.namespace, Name: m.name, Task: queue.TaskAnalysis})
		})
	}
	return group.Wait()
}

func analysisTemplate(address string, interval time.Duration) object {
	return object{"apiVersion": "sluice.dev/v1alpha1", "kind": "ClusterAnalysisTemplate", "metadata": object{"name": analysesTemplate}, "spec": object{
		"metrics": []any{object{
			"name": "success-rate", "interval": interval.String(), "passWhen": "value >= 0.99",
			"prometheus": object{"address": address, "query": `sum(rate(http_requests_total{namespace="{{args.namespace}}",service="{{args.canaryService}}",code!~"5.."}[1m]))` +
				` / sum(rate(http_requests_total{namespace="{{args.namespace}}",service="{{args.canaryService}}"}[1m]))`},
		}},
	}}
}

func analysedRollout(set, name string) object {
	return object{"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "metadata": object{"name": name, "labels": labelsOf(set)}, "spec": object{
		"workloadRef": object{"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
		"strategy": object{"canary": object{
			"enableExtraWorkloadForCanary": true,
			"steps": []any{object{"replicas": "10%", "traffic": "10%",
				"analysis": object{"templates": []any{object{"name": analysesTemplate, "clusterScope": true}}}}},
			"trafficRoutings": []any{object{"service": name, "customNetworkRefs": []any{
				object{"apiVersion": "networking.istio.io/v1beta1", "kind": "VirtualService", "name": name},
			}}},
		}},
	}}
}

// analysing returns the status of a Rollout while its first step is analysed. The last traffic change was long ago, so that measurements begin at once.
func analysing(now time.Time) object {
	stamp := func(after time.Duration) string { return now.Add(after).UTC().Format("2006-01-02T15:04:05.000000Z") }
	before, state := stamp(-time.Hour), api.StepMetricsAnalysis
	return object{
		"phase": api.PhaseProgressing, "currentStepIndex": 1, "currentStepState": state,
		"sluice": object{"epoch": 1, "step": 1, "state": state, "pauseSeq": 1, "since": before, "stableRevision": "a", "canaryRevision": "b"},
		"analysis": object{"step": object{
			"epoch": 1, "step": 1, "pauseSeq": 1, "phase": api.AnalysisRunning, "startedAt": before, "routedAt": before, "renewBy": stamp(time.Hour)}},
	}
}
