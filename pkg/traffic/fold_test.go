package traffic

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"sluice.dev/sluice/pkg/script"
)

// shop is a VirtualService with a rule for two Services together and one for each; n distinguishes its versions.
func shop(t fataler, n int) *unstructured.Unstructured {
	extra := ""
	if n%2 == 1 {
		extra = "\n  exportTo: []"
	}
	return object(t, fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: shop, namespace: default, labels: {version: "%d"}}
spec:
  hosts: [shop%d.example.com]%s
  http:
  - match: [{uri: {prefix: /api}}]
    timeout: %ds
    route:
    - destination: {host: api}
  - route:
    - destination: {host: web}
      weight: 60
    - destination: {host: api}
      weight: 40
  tcp:
  - route:
    - destination: {host: web, port: {number: %d}}
`, n, n, extra, n, 9000+n))
}

var shopReleases = []Release{
	{UID: "u-2", Namespace: "default", Name: "api", Service: "api", CanaryService: "api-canary"},
	{UID: "u-1", Namespace: "default", Name: "web", Service: "web", CanaryService: "web-canary"},
}

func shopStrategies() []Strategy {
	both := weight(50)
	both.Matches = header("version", "canary").Matches
	return []Strategy{weight(20), header("version", "canary"), both, weight(100)}
}

func TestTwoReleasesOnOneObjectEndWithTheOriginalInEveryOrder(t *testing.T) {
	run := builtin(t, "VirtualService")
	orders := [][]int{{0, 1, 0, 1}, {0, 1, 1, 0}, {1, 0, 0, 1}, {1, 0, 1, 0}}
	for _, order := range orders {
		for i, first := range shopStrategies() {
			for j, second := range shopStrategies() {
				g := &gateway{t: t, run: run, live: defaulted(shop(t, 1))}
				before := g.live.DeepCopy()
				g.step(shopReleases[order[0]], first)
				g.step(shopReleases[order[1]], second)
				for _, rel := range shopReleases {
					if !strings.Contains(jsonOf(g.live.Object["spec"]), rel.CanaryService) {
						t.Errorf("order %v, strategies %d and %d: %s is not routed", order, i, j, rel.CanaryService)
					}
				}
				g.restore(shopReleases[order[2]])
				other := shopReleases[order[3]]
				if !strings.Contains(jsonOf(g.live.Object["spec"]), other.CanaryService) {
					t.Errorf("order %v: %s left with the other release", order, other.CanaryService)
				}
				g.restore(other)
				if diff := cmp.Diff(before.Object, g.live.Object); diff != "" {
					t.Errorf("order %v, strategies %d and %d: restored (-want +got)\n%s", order, i, j, diff)
				}
			}
		}
	}
}

func TestTheOrderOfReleasesDoesNotChangeTheObject(t *testing.T) {
	run := builtin(t, "VirtualService")
	ab, ba := &gateway{t: t, run: run, live: defaulted(shop(t, 1))}, &gateway{t: t, run: run, live: defaulted(shop(t, 1))}
	ab.step(shopReleases[0], weight(20))
	ab.step(shopReleases[1], weight(50))
	ba.step(shopReleases[1], weight(50))
	ba.step(shopReleases[0], weight(20))
	if diff := cmp.Diff(ab.live.Object, ba.live.Object); diff != "" {
		t.Errorf("(-api first +web first)\n%s", diff)
	}
}

func TestAReleaseThatCannotBeRenderedKeepsNobodyOnTheObject(t *testing.T) {
	g := &gateway{t: t, run: builtin(t, "VirtualService"), live: defaulted(shop(t, 1))}
	before := g.live.DeepCopy()
	g.step(shopReleases[0], weight(20))
	g.step(shopReleases[1], weight(20))
	good := g.run
	g.run = func(in script.Input) (script.Output, error) {
		if in.StableService == "api" {
			return script.Output{}, fmt.Errorf("broken")
		}
		return good(in)
	}
	route, plan := g.observe(shopReleases[1], weight(30))
	if want := "step 1: the release of Rollout api on the same object: broken"; !strings.HasSuffix(route.Steps[1].Refused, want) {
		t.Errorf("refused = %q, want ...%q", route.Steps[1].Refused, want)
	}
	if _, _, err := plan.DesiredObject(1); err == nil {
		t.Errorf("it was rendered without the other release")
	}
	g.restore(shopReleases[1])
	g.restore(shopReleases[0])
	if diff := cmp.Diff(before.Object, g.live.Object); diff != "" {
		t.Errorf("restored (-want +got)\n%s", diff)
	}
}

// A release whose script ran out of time stays on the object. The writes of the two releases do not count as an edit.
func TestAScriptThatTheClockStoppedLosesNothing(t *testing.T) {
	g := &gateway{t: t, run: builtin(t, "VirtualService"), live: defaulted(shop(t, 1))}
	g.step(shopReleases[0], weight(20))
	g.step(shopReleases[1], weight(20))
	g.live.SetLabels(map[string]string{"owner": "edits"})
	good := g.run
	g.run = func(in script.Input) (script.Output, error) {
		if in.StableService == "api" {
			return script.Output{}, &script.Error{Script: "VirtualService", Kind: script.KindDeadline, Message: "stopped"}
		}
		return good(in)
	}
	route, plan := g.observe(shopReleases[1], weight(30))
	if !route.Steps[1].TimedOut || !route.ScriptTimedOut() || !strings.Contains(route.Steps[1].Refused, "the release of Rollout api on the same object") {
		t.Errorf("the step is seen as %+v", route.Steps[1])
	}
	if _, err := plan.RestoredObject(); !script.IsLate(err) {
		t.Errorf("it is restored without the neighbour: %v", err)
	}
	g.run = good
	g.step(shopReleases[1], weight(30))
	g.restore(shopReleases[1])
	if !strings.Contains(jsonOf(g.live.Object["spec"]), shopReleases[0].CanaryService) {
		t.Errorf("the neighbour is gone")
	}
	g.restore(shopReleases[0])
	want := defaulted(shop(t, 1))
	want.SetLabels(map[string]string{"owner": "edits"})
	if diff := cmp.Diff(want.Object, g.live.Object); diff != "" {
		t.Errorf("restored (-want +got)\n%s", diff)
	}
}

func TestReleasesOnAnObjectAreListed(t *testing.T) {
	g := &gateway{t: t, run: builtin(t, "VirtualService"), live: defaulted(shop(t, 1))}
	for _, rel := range shopReleases {
		g.step(rel, weight(20))
	}
	if diff := cmp.Diff(shopReleases, ReleasesOn(g.live)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestARolloutTakesOffWhatADeadOneOfItsNameLeft(t *testing.T) {
	before := defaulted(shop(t, 1))
	g := &gateway{t: t, run: builtin(t, "VirtualService"), live: before}
	dead := shopReleases[0]
	g.step(dead, weight(20))
	stranger := dead
	stranger.UID, stranger.Name = "another", "another"
	if route, _ := g.observe(stranger); route.Shaped && len(ReleasesOn(g.live)) != 1 {
		t.Errorf("another Rollout takes over what is not its own: %+v", route)
	}
	heir := dead
	heir.UID = "heir"
	if route, _ := g.observe(heir); !route.Shaped || route.Foreign != "" {
		t.Errorf("the route that the dead one left is seen as %+v", route)
	}
	g.step(heir, weight(40))
	if got := ReleasesOn(g.live); len(got) != 1 || got[0].UID != "heir" {
		t.Errorf("the releases on the object are %+v", got)
	}
	g.restore(heir)
	if diff := cmp.Diff(before.Object, g.live.Object); diff != "" {
		t.Errorf("restored (-want +got)\n%s", diff)
	}
}

// TestAnyHistoryEndsWithWhatTheOwnerLastWanted plays releases and their owner against one object. want is the same object with only the owner's changes.
func TestAnyHistoryEndsWithWhatTheOwnerLastWanted(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("..", "..", "lua_configuration", "networking.istio.io", "VirtualService", "trafficRouting.lua"))
	if err != nil {
		t.Fatal(err)
	}
	run := compiled(t, "VirtualService", string(source))
	rapid.Check(t, func(t *rapid.T) {
		g := &gateway{t: t, run: run, live: object(t, "{}")}
		want := &gateway{t: t, live: object(t, "{}")}
		owner := func(change func(*gateway)) {
			change(g)
			change(want)
		}
		owner(func(g *gateway) { g.apply(shop(t, 0)) })
		version := rapid.IntRange(0, 3)
		release := rapid.SampledFrom(shopReleases)
		strategy := rapid.IntRange(0, len(shopStrategies())-1)
		t.Repeat(map[string]func(*rapid.T){
			"step": func(t *rapid.T) {
				g.step(release.Draw(t, "release"), shopStrategies()[strategy.Draw(t, "strategy")])
				onlyListedReleasesAreRouted(t, g)
			},
			"restore": func(t *rapid.T) {
				g.restore(release.Draw(t, "release"))
				onlyListedReleasesAreRouted(t, g)
			},
			"apply": func(t *rapid.T) {
				manifest := shop(t, version.Draw(t, "version"))
				owner(func(g *gateway) { g.apply(manifest) })
			},
			"replace": func(t *rapid.T) {
				manifest := shop(t, version.Draw(t, "version"))
				owner(func(g *gateway) { g.replace(manifest) })
			},
			"edit": func(t *rapid.T) {
				n := version.Draw(t, "version")
				change := rapid.SampledFrom([]func(*unstructured.Unstructured){
					func(o *unstructured.Unstructured) { setLabel(o, "edited", fmt.Sprint(n)) },
					func(o *unstructured.Unstructured) { setAnnotation(o, "edited", fmt.Sprint(n)) },
					func(o *unstructured.Unstructured) { o.SetLabels(nil) },
					func(o *unstructured.Unstructured) { o.Object["spec"].(map[string]any)["hosts"] = []any{fmt.Sprint(n)} },
					func(o *unstructured.Unstructured) { delete(o.Object["spec"].(map[string]any), "exportTo") },
					func(o *unstructured.Unstructured) { ownRule(o)["timeout"] = fmt.Sprint(n, "m") },
				}).Draw(t, "change")
				owner(func(g *gateway) { g.edit(change) })
			},
			"": func(t *rapid.T) {
				end := &gateway{t: t, run: run, live: g.live.DeepCopy()}
				for _, rel := range shopReleases {
					end.restore(rel)
				}
				if diff := cmp.Diff(want.live.Object, end.live.Object); diff != "" {
					t.Fatalf("after all restores (-want +got)\n%s", diff)
				}
				if left := ourAnnotations(end.live); len(left) > 0 {
					t.Fatalf("annotations left: %v", left)
				}
			},
		})
	})
}

func onlyListedReleasesAreRouted(t *rapid.T, g *gateway) {
	for _, rel := range shopReleases {
		routed := strings.Contains(jsonOf(g.live.Object["spec"]), rel.CanaryService)
		listed := slices.ContainsFunc(ReleasesOn(g.live), func(on Release) bool { return on.UID == rel.UID })
		if routed && !listed {
			t.Fatalf("%s is routed, but its release is not on the object", rel.CanaryService)
		}
		if route, _ := g.observe(rel); route.Shaped != listed {
			t.Fatalf("release %s: ours = %v, but it is on the object: %v", rel.Name, route.Shaped, listed)
		}
	}
}
