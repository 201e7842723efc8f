package metric_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/metric"
)

// testdata/answers/README.md names the sources of the answers.
func TestTheDialectsOfProvidersAreUnderstood(t *testing.T) {
	t.Parallel()
	// counts has the number of warnings, with which an answer is not judged, and the number of remarks.
	type counts struct{ warnings, remarks int }
	want := map[string]counts{
		"cortex-1.21.1/partial.json":                         {1, 0},
		"prometheus-2.53.0/remark.json":                      {0, 1},
		"prometheus-2.53.0/remote-read-away-and-remark.json": {1, 1},
		"prometheus-2.53.0/remote-read-away.json":            {1, 0},
		"prometheus-2.53.0/warning.json":                     {1, 0},
		"prometheus-2.53.0/whole.json":                       {0, 0},
		"thanos-0.41.0/remark.json":                          {0, 1},
		"thanos-0.41.0/remark-of-another-querier.json":       {0, 1},
		"thanos-0.41.0/remarks-of-another-querier.json":      {1, 0},
		"thanos-0.41.0/store-away-and-warning.json":          {3, 0},
		"thanos-0.41.0/store-away.json":                      {2, 0},
		"thanos-older/remarks-of-another-querier.json":       {1, 0},
		"victoriametrics-cluster/partial.json":               {1, 0},
		"victoriametrics-cluster/whole.json":                 {0, 0},
	}
	files, err := filepath.Glob("testdata/answers/*/*.json")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]counts{}
	for _, file := range files {
		if _, failed := failures[name(t, file)]; failed {
			continue
		}
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		server := serve(t, says(200, "application/json", string(body)))
		c, _ := client(t, nil)
		answer, err := c.Query(t.Context(), at(server.URL))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		got[name(t, file)] = counts{len(answer.Warnings), len(answer.Infos)}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(counts{})); diff != "" {
		t.Error(diff)
	}
}

// failures are answers to queries that failed, each with its HTTP status code.
var failures = map[string]int{"mimir-2.4.0/blocks-away.json": 500}

// A query that fails is not a measurement, even if a proxy changes the HTTP status code.
func TestAQueryThatAProviderFailsIsNotJudged(t *testing.T) {
	t.Parallel()
	for file, code := range failures {
		body, err := os.ReadFile(filepath.Join("testdata/answers", file))
		if err != nil {
			t.Fatal(err)
		}
		for code, want := range map[int]metric.Outcome{code: metric.ProviderFailed, 200: metric.QueryFailed} {
			server := serve(t, says(code, "application/json", string(body)))
			c, _ := client(t, nil)
			answer, err := c.Query(t.Context(), at(server.URL))
			if got := metric.OutcomeOf(err); err == nil || got != want {
				t.Errorf("%s with %d is %s (%v), not %s: %+v", file, code, got, err, want, answer)
			}
		}
	}
}

func name(t *testing.T, file string) string {
	t.Helper()
	name, err := filepath.Rel("testdata/answers", file)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// The texts come from Prometheus's package util/annotations. Prometheus 2.48 to 2.53 and Thanos write them into the field warnings.
func TestARemarkIsOneInfoAndNothingElse(t *testing.T) {
	t.Parallel()
	for text, remark := range map[string]bool{
		`PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: "x" (1:6)`:                       true,
		`PromQL info: metric might not be a counter, __type__ label is not set to "counter" or "histogram", got "gauge": "x, y" (1:6)`: true,
		`PromQL info: incompatible sample types encountered for binary operator "+": histogram + float (1:1)`:                          true,
		`PromQL info: input to histogram_quantile has NaN observations, result is skewed higher for metric name "x" (1:1)`:             true,
		`PromQL info: input to histogram_fraction has NaN observations, which are excluded from all fractions`:                         true,
		`PromQL info: ignored histogram in stddev aggregation`:                                                                         true,
		`remote query warning (a:1): PromQL info: ignored histogram in stddev aggregation`:                                             true,
		`PromQL info: ignored histogram in stddev aggregation, No StoreAPIs matched for this query`:                                    false,
		`PromQL info: ignored histogram in stddev aggregation,no part of a message of today`:                                           false,
		`PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: "x, \"y", a store is away`:       false,
		`PromQL warning: quantile value should be between 0 and 1, got 2`:                                                              false,
		`a store is away, PromQL info: ignored histogram in stddev aggregation`:                                                        false,
		`9 more annotations omitted`: false,
	} {
		body, err := json.Marshal(map[string]any{
			"status": "success", "warnings": []string{text},
			"data": map[string]any{"resultType": "scalar", "result": []any{1700000000, "0.21"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		server := serve(t, says(200, "application/json", string(body)))
		c, _ := client(t, nil)
		answer, err := c.Query(t.Context(), at(server.URL))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := len(answer.Infos) == 1; got != remark || len(answer.Warnings)+len(answer.Infos) != 1 {
			t.Errorf("%s: infos %q, warnings %q", text, answer.Infos, answer.Warnings)
		}
	}
}
