package main

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sluice.dev/sluice/test/prometheus"
)

const stopping = `
apiVersion: sluice.dev/v1alpha1
kind: AnalysisTemplate
metadata: {name: served, namespace: default}
spec:
  args: [{name: least}]
  metrics:
  - name: served
    interval: 1s
    count: 20
    failureLimit: 1
    prometheus: {address: "%s", query: served_ratio}
    passWhen: value >= double(args.least)
`

// This test runs the complete system: a real API server, NATS, executor, analyzer and Prometheus.
func TestMetricsStopAReleaseAndItIsShownWhy(t *testing.T) {
	registry := client.NewRegistry()
	served := client.NewGauge(client.GaugeOpts{Name: "served_ratio", Help: "Share of the requests that were served."})
	registry.MustRegister(served)
	served.Set(1)
	exporter := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(exporter.Close)
	provider := prometheus.ForTest(t, prometheus.Options{})
	if err := provider.Scrape(prometheus.Target{Address: exporter.Listener.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	cluster := installed(t)
	run := startRun(t, cluster, "--metric-hosts", "127.0.0.1")
	apply(t, cluster, fmt.Sprintf(stopping, provider.Address))
	run.useNATS(t)

	for _, name := range []string{"workload", "virtualservice", "rollout"} {
		kubectl(t, cluster, "", "apply", "-f", filepath.Join("..", "..", "examples", "seeds", "istio-walkthrough", name+".yaml"))
	}
	kubectl(t, cluster, "", "patch", "rollout", "rollouts-demo", "--type=json", "-p",
		`[{"op":"add","path":"/spec/strategy/canary/steps/0/analysis","value":{"templates":[{"name":"served"}],"args":[{"name":"least","value":"0.99"}]}}]`)
	kubectl(t, cluster, "", "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.phase}=Healthy", "--timeout=600s")
	kubectl(t, cluster, "", "wait", "deployment/workload-demo", "--for=condition=Available", "--timeout=600s")
	kubectl(t, cluster, "", "patch", "deployment", "workload-demo", "-p",
		`{"spec":{"template":{"spec":{"containers":[{"name":"nginx", "env":[{"name":"version", "value":"canary"}]}]}}}}`)
	kubectl(t, cluster, "", "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.analysis.step.metrics[0].name}=served", "--timeout=600s")
	startCommand(t, "analysis", "get", "rollouts-demo", "-w", "--kubeconfig", cluster.Kubeconfig).await(t, "       1 |***")
	if code, _, errors := sluice(t.Context(), "approve", "rollouts-demo", "--kubeconfig", cluster.Kubeconfig); code != 1 || !strings.Contains(errors, "is being measured and cannot be approved yet") {
		t.Errorf("an approval while it is measured ended with %d: %s", code, errors)
	}
	_, tree, _ := sluice(t.Context(), "get", "rollout", "rollouts-demo", "--kubeconfig", cluster.Kubeconfig)
	for _, want := range []string{"waits for its metrics; to see them, type:\n         sluice analysis get rollouts-demo -w\n", "\nstep 1   Running  ", "\n  served  Running"} {
		if !strings.Contains(tree, want) {
			t.Errorf("the tree lacks %q:\n%s", want, tree)
		}
	}
	served.Set(0.5)
	kubectl(t, cluster, "", "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.sluice.state}=Aborted", "--timeout=600s")
	code, out, errors := sluice(t.Context(), "analysis", "get", "rollouts-demo", "--kubeconfig", cluster.Kubeconfig)
	if code != 0 {
		t.Fatal(errors)
	}
	for _, want := range []string{
		"Step 1      Failed\n  ", "  served  Failed  AnalysisTemplate/served\n", "2 failed\n", "limit 0.99: passWhen value >= double(args.least)\n", "x failed\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("what is shown lacks %q:\n%s", want, out)
		}
	}
	if last := out[strings.LastIndex(out, "|"):]; strings.Count(last[:strings.Index(last, "\n")], "x") != 2 {
		t.Errorf("two measurements failed, which is not seen:\n%s", out)
	}
	described := kubectl(t, cluster, "", "describe", "rollout", "rollouts-demo")
	if !strings.Contains(described, "2 measurements failed, and 1 may.") {
		t.Errorf("kubectl describe does not say why:\n%s", described)
	}
}
