// Package templates_test tests the shipped analysis templates with a real Prometheus.
package templates_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/deploy"
	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/metric"
	"sluice.dev/sluice/test/prometheus"
)

const (
	// looks bounds the measurements of a metric, one each second.
	looks = 9
	// apart is the time between two samples.
	apart = 100 * time.Millisecond
	// enough is the number of samples that all looks need.
	enough = int((looks + 2) * time.Second / apart)
)

// exporter serves the metrics of a file. Each scrape returns all samples with their timestamps, up to end, so that verdicts do not depend on the times of
// scrapes. The file gives the increase of each counter from one sample to the next.
func exporter(t *testing.T, file string, end time.Time) (address string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			fmt.Fprintln(&out, line)
			continue
		}
		space := strings.LastIndex(line, " ")
		series, value := line[:space], line[space+1:]
		rise, err := strconv.Atoi(value)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for n := range enough {
			fmt.Fprintf(&out, "%s %d %d\n", series, rise*(n+1), end.Add(-time.Duration(enough-1-n)*apart).UnixMilli())
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, out.String())
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// conditions are the states of the canary; each has its own namespace.
func conditions() []string { return []string{"good", "errors", "slow"} }

// started returns a Prometheus that has scraped everything, and the time of the newest samples.
func started(t *testing.T) (s *prometheus.Server, end time.Time) {
	t.Helper()
	s, end = prometheus.ForTest(t, prometheus.Options{Interval: time.Second}), time.Now()
	var targets []prometheus.Target
	var addresses []string
	add := func(file string, labels map[string]string) {
		address := exporter(t, file, end)
		addresses, targets = append(addresses, address), append(targets, prometheus.Target{Address: address, Labels: labels})
	}
	for _, c := range conditions() {
		add("istio-"+c+".prom", map[string]string{"job": "envoy-stats"})
		add("http-stable.prom", map[string]string{"namespace": c, "service": "checkout", "pod": "checkout-7c9b8d-x2x4z"})
		add("http-"+c+".prom", map[string]string{"namespace": c, "service": "checkout-canary", "pod": "checkout-canary-5d4f6b-q8w7r"})
	}
	if err := s.Scrape(targets...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if err := s.Scraped(ctx, addresses...); err != nil {
		t.Fatal(err)
	}
	return s, end
}

func shipped(t *testing.T) map[string]api.AnalysisTemplateSpec {
	t.Helper()
	stream, err := deploy.Manifests(api.DefaultInstallation(), "templates")
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]api.AnalysisTemplateSpec{}
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(stream))); ; {
		text, err := documents.Read()
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		var one api.ClusterAnalysisTemplate
		if err := yaml.UnmarshalStrict(text, &one); err != nil {
			t.Fatal(err)
		}
		list[one.Name] = one.Spec
	}
}

// run measures a metric as a release would, but every second, and without the hours before it. It returns its phase and whether it is fine.
func run(t *testing.T, client *metric.Client, m api.Metric, args map[string]string, end time.Time) string {
	t.Helper()
	m.Interval = "1s"
	if m.Compare != nil {
		m.Compare.LongestBurst = "0s"
	}
	spec, err := analysis.ParseMetric(m, args)
	if err != nil {
		t.Fatal(err)
	}
	state := analysis.NewState(end.Add(-(looks + 1) * time.Second))
	var verdict analysis.Verdict
	for i := range looks {
		at := end.Add(time.Duration(i-looks+1) * time.Second)
		state, verdict = analysis.NextState(state, measure(t, client, spec, at), spec, at)
		if verdict.Ended {
			break
		}
	}
	t.Logf("%s: %s", verdict.Phase, verdict.Message)
	if verdict.Passing {
		return string(verdict.Phase) + " and fine"
	}
	return string(verdict.Phase)
}

func measure(t *testing.T, client *metric.Client, spec analysis.Metric, at time.Time) analysis.Measurement {
	t.Helper()
	q, a := spec.Queries(), analysis.Answers{}
	for _, part := range []struct {
		text string
		into *analysis.Result
	}{
		{q.Value, &a.Value}, {q.Samples, &a.Samples}, {q.CanaryBad, &a.CanaryBad}, {q.CanaryTotal, &a.CanaryTotal}, {q.StableBad, &a.StableBad},
		{q.StableTotal, &a.StableTotal}, {q.CanaryBuckets, &a.CanaryBuckets}, {q.StableBuckets, &a.StableBuckets},
	} {
		if part.text == "" {
			continue
		}
		answer, err := client.Query(t.Context(), metric.Request{Provider: metric.Provider{Address: spec.Address}, Query: part.text, At: at})
		if err != nil {
			t.Fatalf("%s: %v", part.text, err)
		}
		if len(answer.Infos) > 0 {
			t.Errorf("Prometheus remarks on %s: %s", part.text, answer.Infos)
		}
		*part.into = answer.Result
	}
	return spec.Measure(at, a)
}

func TestTheVerdictsOfTheTemplatesAreRight(t *testing.T) {
	t.Parallel()
	s, end := started(t)
	hosts, err := metric.ParseHosts([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	client := metric.New(metric.Options{Hosts: hosts})
	t.Cleanup(client.Close)

	const passed, failed, fine = "Passed", "Failed", "Running and fine"
	want := map[string][]string{} // by metric, for good, errors, slow
	for _, family := range []string{"istio", "http"} {
		want[family+"-success-rate/success-rate"] = []string{passed, failed, passed}
		want[family+"-latency/latency"] = []string{passed, passed, failed}
		want[family+"-canary-errors/errors"] = []string{passed, failed, passed}
		want[family+"-canary-latency/latency"] = []string{passed, passed, failed}
		want[family+"-release/errors"] = []string{fine, failed, fine}
		want[family+"-release/latency"] = []string{fine, fine, failed}
	}
	want["http-success-rate/success-rate by pod"] = []string{passed, failed, passed}

	got, templates := map[string][]string{}, shipped(t)
	for _, name := range slices.Sorted(maps.Keys(templates)) {
		for _, m := range templates[name].Metrics {
			for _, c := range conditions() {
				given := map[string]string{"prometheus": s.Address, "window": "1s"}
				key := name + "/" + m.Name
				got[key] = append(got[key], run(t, client, m, arguments(t, templates[name], given, c), end))
				if name == "http-success-rate" {
					given["label"] = "pod"
					got[key+" by pod"] = append(got[key+" by pod"], run(t, client, m, arguments(t, templates[name], given, c), end))
				}
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("good, errors, slow (-want +got):\n%s", diff)
	}
}

func arguments(t *testing.T, template api.AnalysisTemplateSpec, given map[string]string, namespace string) map[string]string {
	t.Helper()
	args, err := analysis.ResolveArguments(template.Args, given, map[string]string{
		api.ArgNamespace: namespace, api.ArgStableService: "checkout", api.ArgCanaryService: "checkout-canary", api.ArgStableHash: "7c9b8d", api.ArgCanaryHash: "5d4f6b",
	})
	if err != nil {
		t.Fatal(err)
	}
	return args
}

func TestEveryTemplateWorksWithoutArguments(t *testing.T) {
	t.Parallel()
	for name, template := range shipped(t) {
		for _, m := range template.Metrics {
			if _, err := analysis.ParseMetric(m, arguments(t, template, nil, "shop")); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if p := m.Compare; p != nil && p.PassAfter != nil && p.PassAfter.Samples < 20000 {
				t.Errorf("%s passes after %g requests, which let too many bad canaries through", name, p.PassAfter.Samples)
			}
		}
	}
}
