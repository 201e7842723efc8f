package gateway

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/test/world"
)

var update = flag.Bool("update", false, "write the lists of refusals anew")

// What the publishers of a kind give as examples, and as cases of their own tests, is shaped and given back; what is refused is listed with
// the reason, and is at most one in ten of those that lead to a Service. An object that the API server takes, it takes in any shape.
func TestThePublishersExamplesAreShapedAndGivenBack(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	j := aJudge(t, w.Config, w.Namespace(t))
	dirs, err := filepath.Glob(filepath.Join(world.Root(), "bin/examples/*"))
	listed, _ := filepath.Glob("testdata/refused/*")
	if err != nil || len(dirs) == 0 || len(dirs) < len(listed) {
		t.Fatalf("examples of %d publishers, of whom %d are listed (%v): run dev/crds/build", len(dirs), len(listed), err)
	}
	var allLed, allRefused atomic.Int64
	t.Cleanup(func() {
		if allLed.Load() == 0 || 10*allRefused.Load() > allLed.Load() {
			t.Errorf("%d of %d objects that lead to a Service are refused", allRefused.Load(), allLed.Load())
		}
	})
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			objects, led := 0, 0
			refused := map[string]int{}
			for u := range examples(t, dir) {
				objects++
				services := servicesOf(u)
				if len(services) == 0 {
					continue
				}
				led++
				taken := j.try(t.Context(), u.Object) == nil
				var why string
				for _, service := range services {
					outcome := play(t, u, service, steps(u.GetKind()))
					why = cmp.Or(why, outcome.refused)
					for _, shaped := range outcome.shaped {
						if err := j.try(t.Context(), shaped.Object); err != nil && taken {
							t.Errorf("%s %s for Service %s: %v", u.GetKind(), u.GetName(), service, err)
						}
					}
				}
				if why != "" {
					refused[why]++
				}
			}
			total := 0
			var list strings.Builder
			for _, why := range slices.Sorted(maps.Keys(refused)) {
				total += refused[why]
				fmt.Fprintf(&list, "%d: %s\n", refused[why], why)
			}
			allLed.Add(int64(led))
			allRefused.Add(int64(total))
			counted := fmt.Sprintf("%d objects, %d lead to a Service, %d of them are refused\n", objects, led, total)
			golden(t, filepath.Join("testdata", "refused", filepath.Base(dir)+".golden"), counted+list.String())
		})
	}
}

func TestThePageTellsHowManyExamplesAreRefused(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/refused/*.golden")
	if err != nil {
		t.Fatal(err)
	}
	allLed, allRefused := 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var objects, led, refused int
		if _, err := fmt.Sscanf(string(text), "%d objects, %d lead to a Service, %d of them are refused", &objects, &led, &refused); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		allLed, allRefused = allLed+led, allRefused+refused
	}
	page, err := os.ReadFile(filepath.Join(world.Root(), "docs/gateways.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d of the %d that lead to a\nService", allRefused, allLed); !strings.Contains(string(page), want) {
		t.Errorf("docs/gateways.md does not say %q", want)
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := diff.Diff(string(want), got); d != "" {
		t.Errorf("%s (-update writes it):\n%s", file, d)
	}
}

var (
	fence    = regexp.MustCompile("(?ms)^[ \t]*```ya?ml[^\n]*\n(.*?)^[ \t]*```")
	document = regexp.MustCompile(`(?m)^---.*$`)
	ofAKind  = regexp.MustCompile(`(?m)^kind: (VirtualService|HTTPRoute|GRPCRoute|TCPRoute|TLSRoute|IngressRoute|TraefikService|ApisixRoute|TrafficRoute|Ingress)\s*$`)
)

// examples are the different objects of the kinds that have scripts, in the manifests and pages of a directory. Templates are left out.
func examples(t *testing.T, dir string) func(yield func(*unstructured.Unstructured) bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(*unstructured.Unstructured) bool) {
		seen := map[string]bool{}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parts := []string{string(text)}
			if strings.HasSuffix(file, ".md") {
				parts = nil
				for _, found := range fence.FindAllStringSubmatch(string(text), -1) {
					parts = append(parts, found[1])
				}
			}
			for _, part := range parts {
				for _, doc := range document.Split(part, -1) {
					if seen[doc] || !ofAKind.MatchString(doc) {
						continue
					}
					u := &unstructured.Unstructured{}
					if body, err := yaml.YAMLToJSON([]byte(doc)); err != nil || u.UnmarshalJSON(body) != nil || !known(u) {
						continue
					}
					seen[doc] = true
					if u.GetName() == "" {
						u.SetName("unnamed")
					}
					if !yield(u) {
						return
					}
				}
			}
		}
	}
}
