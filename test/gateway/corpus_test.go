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
	"sync"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/test/world"
)

var update = flag.Bool("update", false, "write the lists of refusals anew")

// The publishers of a kind have examples, and cases in their own tests. The script shapes and restores these objects.
// Refused objects are listed with the reason, and are at most one in ten of the objects that lead to a Service. If the
// API server accepts an object, it accepts all its shapes.
func TestThePublishersExamplesAreShapedAndGivenBack(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	j := aJudge(t, w.Config, w.Namespace(t))
	dirs, err := filepath.Glob(filepath.Join(world.Root(), "bin/examples/*"))
	listed, _ := filepath.Glob("testdata/refused/*")
	if err != nil || len(dirs) == 0 || len(dirs) < len(listed) {
		t.Fatalf("examples of %d publishers, of whom %d are listed (%v): run dev/crds/build", len(dirs), len(listed), err)
	}
	var mu sync.Mutex
	all := map[string]counted{}
	t.Cleanup(func() {
		for _, kind := range slices.Sorted(maps.Keys(all)) {
			c := all[kind]
			t.Logf("%s: %s", kind, c)
			if why := often[kind]; 10*c.refused > c.led && why == "" {
				t.Errorf("%s: %s, which is more than one in ten", kind, c)
			} else if 10*c.refused <= c.led && why != "" {
				t.Errorf("%s: %s, and it is said that more are: %s", kind, c, why)
			}
		}
		if len(all) == 0 {
			t.Error("no example leads to a Service")
		}
	})
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			objects, of, refused := 0, map[string]counted{}, map[string]int{}
			for u := range examples(t, dir) {
				objects++
				services := servicesOf(u)
				if len(services) == 0 {
					continue
				}
				c := of[u.GetKind()]
				c.led++
				taken := j.try(t.Context(), u.Object) == nil
				var why string
				for _, service := range services {
					outcome := play(t, u, releaseOf(t, u, service), steps(u.GetKind()))
					why = cmp.Or(why, outcome.refused)
					for _, shaped := range outcome.shaped {
						if err := j.try(t.Context(), shaped.Object); err != nil && taken {
							t.Errorf("%s %s for Service %s: %v", u.GetKind(), u.GetName(), service, err)
						}
					}
				}
				if why != "" {
					refused[why]++
					c.refused++
				}
				of[u.GetKind()] = c
			}
			var list strings.Builder
			fmt.Fprintf(&list, "%d objects\n", objects)
			mu.Lock()
			for _, kind := range slices.Sorted(maps.Keys(of)) {
				fmt.Fprintf(&list, "%s: %s\n", kind, of[kind])
				all[kind] = counted{all[kind].led + of[kind].led, all[kind].refused + of[kind].refused}
			}
			mu.Unlock()
			for _, why := range slices.Sorted(maps.Keys(refused)) {
				fmt.Fprintf(&list, "%d: %s\n", refused[why], why)
			}
			golden(t, filepath.Join("testdata", "refused", filepath.Base(dir)+".golden"), list.String())
		})
	}
}

// counted has the number of objects of a kind that lead to a Service, and the number of refused ones among them.
type counted struct{ led, refused int }

func (c counted) String() string {
	return fmt.Sprintf("%d lead to a Service, %d are refused", c.led, c.refused)
}

// often has the kinds with more than one in ten refused, and the reason, which docs/gateways.md explains.
var often = map[string]string{
	"TraefikService": "a mirroring or failover has no shares",
	"ApisixRoute":    "a stream has one backend",
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
	ofAKind  = regexp.MustCompile(`(?m)^kind: (VirtualService|DestinationRule|HTTPRoute|GRPCRoute|TCPRoute|TLSRoute|IngressRoute|TraefikService|ApisixRoute|TrafficRoute|Ingress)\s*$`)
)

// examples returns the distinct objects of kinds with scripts, in the manifests and pages of a directory. It leaves out
// templates.
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
