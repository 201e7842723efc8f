package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/test/prometheus"
)

const tried = `
apiVersion: sluice.dev/v1alpha1
kind: AnalysisTemplate
metadata: {name: served}
spec:
  args:
  - {name: limit, value: "5"}
  metrics:
  - name: served
    interval: 30s
    count: 10
    failureLimit: 1
    minSamples: {query: 'sum(served_total{app="{{args.canaryService}}"})', atLeast: 3}
    prometheus: {address: "http://prometheus.monitoring.svc:9090", query: 'served_total{app="{{args.canaryService}}"}'}
    reduce: max
    passWhen: value >= double(args.limit)
  - name: several
    interval: 30s
    prometheus: {address: "http://prometheus.monitoring.svc:9090", query: served_total}
    passWhen: value >= 0.5
---
apiVersion: sluice.dev/v1alpha1
kind: ClusterAnalysisTemplate
metadata: {name: short}
spec:
  metrics:
  - name: rate
    interval: 30s
    prometheus: {address: "http://prometheus.monitoring.svc:9090", query: 'sum(rate(served_total[10m]))'}
    passWhen: value >= 0.0
  - name: blink
    interval: 30s
    prometheus: {address: "http://prometheus.monitoring.svc:9090", query: 'sum(rate(served_total[1ms]))'}
    passWhen: value >= 0.0
  - name: nothing
    interval: 30s
    prometheus: {address: "http://prometheus.monitoring.svc:9090", query: 'served_total{app="nobody"}'}
    passWhen: value >= 0.0
  - name: slow
    interval: 12m
    prometheus: {address: "http://prometheus.monitoring.svc:9090"}
    compare:
      longestBurst: 0s
      latency: {canary: 'sum by (le) (increase(seconds_bucket{app="shop-canary"}[{{args.interval}}]))', stable: 'sum by (le) (increase(seconds_bucket{app="shop"}[{{args.interval}}]))'}
`

// shop is an exporter of an application whose canary is slow. Each scrape returns twelve samples of the last 44 minutes with their timestamps. Therefore the
// verdict does not depend on the times of scrapes.
func shop(t *testing.T) (address string) {
	t.Helper()
	var out strings.Builder
	out.WriteString("# TYPE served_total counter\nserved_total{app=\"shop-canary\"} 7\nserved_total{app=\"shop\"} 70\n# TYPE seconds histogram\n")
	now := time.Now()
	for app, quick := range map[string]int{"shop": 99, "shop-canary": 80} { // of 100 requests between two samples
		for series, rise := range map[string]int{
			`bucket{app=%q,le="0.1"}`: quick, `bucket{app=%q,le="1"}`: quick, `bucket{app=%q,le="10"}`: 100, `bucket{app=%q,le="+Inf"}`: 100, `count{app=%q}`: 100, `sum{app=%q}`: 100,
		} {
			for n := range 12 {
				fmt.Fprintf(&out, "seconds_"+series+" %d %d\n", app, rise*(n+1), now.Add(time.Duration(n-11)*4*time.Minute).UnixMilli())
			}
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, out.String())
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestATemplateIsTriedAndExplained(t *testing.T) {
	t.Parallel()
	s := prometheus.ForTest(t, prometheus.Options{})
	address := shop(t)
	if err := s.Scrape(prometheus.Target{Address: address, Labels: map[string]string{"job": "shop"}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for range 2 { // a rate of served_total, which has no timestamps, needs two samples
		if err := s.Scraped(ctx, address); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "template.yaml")
	if err := os.WriteFile(file, []byte(tried), 0o600); err != nil {
		t.Fatal(err)
	}

	code, out, errors := sluice(t.Context(), "analysis", "try", "-f", file, "--prometheus", s.Address, "--arg", "workload=shop", "-o", "json")
	if code != 1 || !strings.Contains(errors, "3 metrics could not be judged") {
		t.Errorf("it ended with %d: %s", code, errors)
	}
	var got struct {
		Templates []struct {
			Template string
			Metrics  []struct{ Name, Outcome string }
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]string{}
	for _, template := range got.Templates {
		for _, m := range template.Metrics {
			outcomes[template.Template+" "+m.Name] = m.Outcome
		}
	}
	want := map[string]string{
		"AnalysisTemplate/served served": "pass", "AnalysisTemplate/served several": "error", "ClusterAnalysisTemplate/short rate": "pass",
		"ClusterAnalysisTemplate/short blink": "noData", "ClusterAnalysisTemplate/short nothing": "noData", "ClusterAnalysisTemplate/short slow": "fail",
	}
	if diff := cmp.Diff(want, outcomes); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, out)
	}

	often := regexp.MustCompile(`every \S+: (.*)over \S+`) // as Prometheus scrapes on a busy machine
	for metric, test := range map[string]struct {
		code int
		want []string
	}{
		"served": {0, []string{
			"  canaryService = shop-canary  (assumed; a Rollout gives it, here --arg canaryService=VALUE does)\n",
			"  limit = 5  (the template's)\n",
			"served  pass\n  The value 7 passes value >= double(args.limit).\n  asked        " + s.Address + "\n",
			"  query        served_total{app=\"shop-canary\"}\n               -> served_total{app=\"shop-canary\", instance=\"" + address + "\", job=\"shop\"} 7\n",
			"  judged by    reduce max, passWhen value >= double(args.limit), minSamples.atLeast 3\n",
			"  in a release every 30s; 10 measurements decide, 1 of them may fail; from 0s after a change of traffic on\n",
		}},
		"several": {1, []string{"The query returned 2 values, and the metric does not say what to make of them; set reduce"}},
		"nothing": {1, []string{"nothing  noData\n  The query returned no series; check its names and labels, and that the canary is scraped.\n", "-> no series\n"}},
		"rate":    {0, []string{"rate  pass\n"}},
		"blink":   {1, []string{"warning: The queries look back over 1ms, and Prometheus scrapes its quickest target every X: no rate can be told from fewer than two samples; let them look back over X at least.\n"}},
		"slow":    {0, []string{"slow  fail\n  The canary is worse than the stable group: ", "requests to the canary were slower than 0.1"}},
	} {
		code, out, errors := sluice(t.Context(), "analysis", "try", "-f", file, "--prometheus", s.Address, "--arg", "workload=shop", "--metric", metric)
		out = often.ReplaceAllString(out, "every X: ${1}over X")
		if code != test.code {
			t.Errorf("%s ended with %d: %s", metric, code, errors)
		}
		for _, want := range test.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s lacks %q:\n%s", metric, want, out)
			}
		}
	}

	if code, _, _ := sluice(t.Context(), "analysis", "try", "-f", file, "--metric", "absent"); code != 2 {
		t.Errorf("a metric that is not there ends with %d, want 2", code)
	}
}
