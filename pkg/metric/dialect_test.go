package metric_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testdata/answers/README.md says where the answers come from.
func TestTheDialectsOfProvidersAreUnderstood(t *testing.T) {
	t.Parallel()
	// counts is how many texts are warnings, which let an answer not be judged, and how many are remarks.
	type counts struct{ warnings, remarks int }
	want := map[string]counts{
		"cortex-1.21.1/partial.json":                         {1, 0},
		"prometheus-2.53.0/remark.json":                      {0, 1},
		"prometheus-2.53.0/remote-read-away-and-remark.json": {1, 1},
		"prometheus-2.53.0/remote-read-away.json":            {1, 0},
		"prometheus-2.53.0/warning.json":                     {1, 0},
		"prometheus-2.53.0/whole.json":                       {0, 0},
		"thanos-0.41.0/remark.json":                          {0, 1},
		"thanos-0.41.0/remarks-of-another-querier.json":      {1, 0},
		"thanos-0.41.0/store-away-and-warning.json":          {3, 0},
		"thanos-0.41.0/store-away.json":                      {2, 0},
		"victoriametrics-cluster/partial.json":               {1, 0},
		"victoriametrics-cluster/whole.json":                 {0, 0},
	}
	files, err := filepath.Glob("testdata/answers/*/*.json")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]counts{}
	for _, file := range files {
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
		name, err := filepath.Rel("testdata/answers", file)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = counts{len(answer.Warnings), len(answer.Infos)}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(counts{})); diff != "" {
		t.Error(diff)
	}
}
