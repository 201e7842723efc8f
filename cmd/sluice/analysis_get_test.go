package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/event"
)

const measuring = `{"status":{"phase":"Progressing","message":"measures","currentStepIndex":1,"currentStepState":"StepMetricsAnalysis",
	"canaryStatus":{"currentStepIndex":1,"currentStepState":"StepMetricsAnalysis"},"sluice":{"epoch":3,"step":1,"state":"StepMetricsAnalysis","pauseSeq":5},
	"analysis":{"step":{"phase":"%[1]s","message":"%[2]s","epoch":3,"step":1,"pauseSeq":5,"startedAt":"2026-11-20T10:00:00.000000Z",
		"metrics":[{"name":"rate","template":"AnalysisTemplate/rate","phase":"%[1]s","passed":1,"lastValue":"0.999"}]}}}}`

const measuredRollout = `{apiVersion: rollouts.kruise.io/v1beta1, kind: Rollout, metadata: {name: web}, spec: {
	workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web},
	strategy: {canary: {enableExtraWorkloadForCanary: true, steps: [{replicas: 1, analysis: {templates: [{name: rate}]}}, {replicas: 100%}]}}}}`

const rateTemplate = `{apiVersion: sluice.dev/v1alpha1, kind: AnalysisTemplate, metadata: {name: rate}, spec: {args: [{name: limit, value: "0.99"}],
	metrics: [{name: rate, interval: 30s, prometheus: {address: "http://p.m.svc", query: up}, passWhen: "value >= double(args.limit)"}]}}`

// measure publishes a measurement of the metric rate, second seconds after the begin of the run.
func (a *archive) measure(uid string, second int, outcome string, value float64) {
	a.Helper()
	at := time.Date(2026, 11, 20, 10, 0, second, 0, time.UTC)
	e, err := event.NewMeasured(event.Measured{
		Analysis: event.Analysis{Cluster: "eu-1", Namespace: "default", Name: "web", UID: uid, Release: &event.Release{Epoch: 3}, Step: &event.Step{Index: 1, Of: 2}, Scope: "step", PauseSeq: 5},
		Template: "AnalysisTemplate/rate", Metric: "rate", Address: "http://p.m.svc", Window: event.WindowOf(at, time.Minute),
		Value: &value, Outcome: outcome, Phase: "Running", Reason: outcome, Message: fmt.Sprintf("The value %g was judged.", value),
	}, "d1", at)
	if err != nil {
		a.Fatal(err)
	}
	a.publish(e)
}

func TestWhatMetricsSayIsShown(t *testing.T) {
	t.Parallel()
	cluster := sharedCluster(t)
	lockWeb(t, cluster)
	a := newArchive(t)
	show := func(args ...string) (int, string, string) {
		return sluice(t.Context(), append(append([]string{"analysis", "get", "web", "--kubeconfig", cluster.Kubeconfig}, a.args...), args...)...)
	}
	status := func(phase, message string) {
		kubectl(t, cluster, "", "patch", "rollout", "web", "--subresource=status", "--type=merge", "-p", fmt.Sprintf(measuring, phase, message))
	}
	apply(t, cluster, web)
	if code, out, errors := show(); code != 0 || out != "" || errors != "Rollout default/web has no analysis: name templates under strategy.analysis, or under analysis of a step.\n" {
		t.Errorf("without an analysis it ends with %d: %s%s", code, out, errors)
	}
	apply(t, cluster, measuredRollout)
	if code, out, errors := show(); code != 0 || out != "" || !strings.Contains(errors, "The analyzer measures nothing for Rollout default/web now") {
		t.Errorf("before the analysis it ends with %d: %s%s", code, out, errors)
	}
	apply(t, cluster, rateTemplate)
	status("Running", "Measurement 1 of 3.")
	uid := kubectl(t, cluster, "", "get", "rollout", "web", "-o", "jsonpath={.metadata.uid}")
	a.measure("another", 0, "fail", 0.1)
	a.measure(uid, 0, "pass", 0.999)

	const chart = `Rollout     default/web
Message     measures

Step 1      Running
  Measurement 1 of 3.
  began 10:00:00

  rate  Running  AnalysisTemplate/rate
    last value 0.999; 1 passed
    0.999 |*
          |
          |
          |
     0.99 |-
           10:00:00
           limit 0.99: passWhen value >= double(args.limit)
`
	if code, out, errors := show(); code != 0 || out != chart {
		t.Errorf("it ends with %d: %s\ngot\n%s\nwant\n%s", code, errors, out, chart)
	}
	var got struct {
		Name         string
		Analysis     struct{ Step struct{ Phase string } }
		Measurements []event.Measured
	}
	code, out, errors := show("-o", "json")
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || got.Name != "web" || got.Analysis.Step.Phase != "Running" || len(got.Measurements) != 1 {
		t.Errorf("as json it ends with %d: %v %s\n%s", code, err, errors, out)
	}
	if code, out, _ := show("-o", "yaml"); code != 0 || !strings.Contains(out, "    outcome: pass\n") && !strings.Contains(out, "  outcome: pass\n") {
		t.Errorf("as yaml it ends with %d:\n%s", code, out)
	}
	code, out, errors = sluice(t.Context(), "analysis", "get", "web", "--kubeconfig", cluster.Kubeconfig, "--nats-url", "nats://127.0.0.1:1")
	if code != 0 || !strings.Contains(out, "last value 0.999; 1 passed\n\n! The measurements cannot be shown, and the verdicts stand alone: connect to NATS at nats://127.0.0.1:1: ") {
		t.Errorf("without NATS it ends with %d: %s\n%s", code, errors, out)
	}

	watch := startCommand(t, append([]string{"analysis", "get", "web", "-w", "--kubeconfig", cluster.Kubeconfig}, a.args...)...)
	watch.await(t, "    0.999 |*")
	a.measure(uid, 30, "fail", 0.9)
	watch.await(t, "      0.9 | x")
	status("Failed", "1 measurement failed.")
	watch.await(t, "Step 1      Failed")

	code, out, _ = sluice(t.Context(), append([]string{"events", "web", "-n", "default"}, a.args...)...)
	if code != 0 || strings.Contains(out, "analysis.measured") {
		t.Errorf("measurements bury other events:\n%s", out)
	}
	code, out, _ = sluice(t.Context(), append([]string{"events", "web", "-n", "default", "--type", "analysis"}, a.args...)...)
	if code != 0 || !strings.Contains(out, "analysis.measured   1/2    -       rate: fail. The value 0.9 was judged.\n") {
		t.Errorf("measurements that are asked for:\n%s", out)
	}
}
