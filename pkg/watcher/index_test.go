package watcher

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: name}
}

func dependents(x *index, kind, name string) []string {
	group := map[string]string{"Deployment": "apps", "VirtualService": "networking.istio.io"}[kind]
	var names []string
	for _, n := range x.dependentsOf(object{group, kind, key(name)}) {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}

func dependenciesIn(t *testing.T, text string) *dependencies {
	t.Helper()
	s := typed[*rolloutView](t, read(t, text))
	return dependenciesOf(s, newPlan(s))
}

func TestTheIndexFollowsWhatARolloutNames(t *testing.T) {
	t.Parallel()
	x := newIndex()
	x.putDependencies(key("web"), dependenciesIn(t, pausedRollout))
	x.putDependencies(key("other"), dependenciesIn(t, pausedRollout))
	for _, on := range [][2]string{{"Deployment", "web"}, {"Deployment", "web-canary"}, {"Service", "web"}, {"Service", "web-canary"}, {"VirtualService", "web"}} {
		if diff := cmp.Diff([]string{"other", "web"}, dependents(x, on[0], on[1])); diff != "" {
			t.Errorf("who depends on %v (-want +got):\n%s", on, diff)
		}
	}
	moved := strings.NewReplacer("Deployment, name: web", "Deployment, name: shop", "VirtualService, name: web", "VirtualService, name: shop").Replace(pausedRollout)
	if old := x.putDependencies(key("web"), dependenciesIn(t, moved)); old == nil || old.workload.name != key("web") {
		t.Errorf("before it was %+v", old)
	}
	if diff := cmp.Diff([]string{"other"}, dependents(x, "Deployment", "web")); diff != "" {
		t.Errorf("who depends on the old workload (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"web"}, dependents(x, "VirtualService", "shop")); diff != "" {
		t.Errorf("who depends on the new gateway object (-want +got):\n%s", diff)
	}
	x.putDependencies(key("web"), nil)
	x.putDependencies(key("other"), nil)
	if len(x.byObject) > 0 || len(x.rollouts) > 0 || len(x.namedKinds()) > 0 {
		t.Errorf("left over: %v %v", x.byObject, x.rollouts)
	}
}

func TestTheIndexKnowsEveryServiceThatARolloutIsRoutedBy(t *testing.T) {
	t.Parallel()
	x := newIndex()
	x.putDependencies(key("web"), dependenciesIn(t, strings.Replace(pausedRollout, "      - service: web\n", `      - service: grpc
        customNetworkRefs: [{apiVersion: networking.istio.io/v1, kind: VirtualService, name: grpc}]
      - service: shared
        createCanaryService: false
        customNetworkRefs: [{apiVersion: networking.istio.io/v1, kind: VirtualService, name: shared}]
      - service: web
`, 1)))
	for on, want := range map[[2]string][]string{
		{"Service", "web"}: {"web"}, {"Service", "web-canary"}: {"web"}, {"VirtualService", "web"}: {"web"},
		{"Service", "grpc"}: {"web"}, {"Service", "grpc-canary"}: {"web"}, {"VirtualService", "grpc"}: {"web"},
		{"Service", "shared"}: {"web"}, {"Service", "shared-canary"}: nil, {"VirtualService", "shared"}: {"web"},
	} {
		if diff := cmp.Diff(want, dependents(x, on[0], on[1])); diff != "" {
			t.Errorf("who depends on %v (-want +got):\n%s", on, diff)
		}
	}
}

func TestARolloutThatCannotBeReadDependsOnNothing(t *testing.T) {
	t.Parallel()
	d := dependenciesIn(t, strings.Replace(pausedRollout, "20%", "900%", 1))
	if len(d.objects) > 0 || len(d.refs) > 0 {
		t.Errorf("it depends on %v and %v", d.objects, d.refs)
	}
}

func TestTheIndexIsSafeForManyAtOnce(t *testing.T) {
	t.Parallel()
	x := newIndex()
	var running sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		running.Go(func() {
			for range 100 {
				x.putDependencies(key(name), dependenciesIn(t, pausedRollout))
				x.dependentsOf(object{"apps", "Deployment", key("web")})
				x.namesMatching(anyRollout)
				x.namedKinds()
				x.putDependencies(key(name), nil)
			}
		})
	}
	running.Wait()
}

func TestTheIndexFollowsWhatObjectsName(t *testing.T) {
	t.Parallel()
	x := newIndex()
	of := func(name string) object { return object{"traefik.io", "TraefikService", key(name)} }
	by := func(name string) []string {
		var names []string
		for _, o := range x.referrers(of(name)) {
			names = append(names, o.name.Name)
		}
		slices.Sort(names)
		return names
	}
	x.refer(of("a"), []object{of("b"), of("c")})
	x.refer(of("b"), []object{of("c")})
	x.refer(of("c"), []object{of("a")}) // a cycle
	for name, want := range map[string][]string{"a": {"a", "b", "c"}, "b": {"a", "b", "c"}, "c": {"a", "b", "c"}, "d": nil} {
		if diff := cmp.Diff(want, by(name)); diff != "" {
			t.Errorf("who names %s (-want +got):\n%s", name, diff)
		}
	}
	x.refer(of("c"), nil)
	x.refer(of("b"), []object{of("d")})
	for name, want := range map[string][]string{"a": nil, "b": {"a"}, "c": {"a"}, "d": {"a", "b"}} {
		if diff := cmp.Diff(want, by(name)); diff != "" {
			t.Errorf("who names %s then (-want +got):\n%s", name, diff)
		}
	}
	x.refer(of("a"), nil)
	x.refer(of("b"), nil)
	if len(x.names) > 0 || len(x.namedBy) > 0 {
		t.Errorf("left over: %v %v", x.names, x.namedBy)
	}
}
