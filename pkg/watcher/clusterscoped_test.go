package watcher

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/script"
)

func TestKindsOfNoNamespaceThatHaveAScriptAreWatchedAlthoughNobodyNamesThem(t *testing.T) {
	t.Parallel()
	w := &Watcher{
		Options: Options{Scripts: script.NewLibrary(luaconfiguration.FS, "")}, clients: clients{}, index: newIndex(), routings: newIndex(),
		findRequests: make(chan struct{}, 1), watches: map[namedKind]*kindWatch{}, defined: map[schema.GroupVersionKind]bool{},
	}
	w.scripted = w.scriptedKindsWith(nil)
	define := func(group, kind, scope string, gone bool) {
		w.definitionChanged(factOf(t, definitionFacts, read(t, `{spec: {group: `+group+`, scope: `+scope+`, names: {kind: `+kind+`},
			versions: [{name: v1alpha1, served: false}, {name: v1beta1, served: true}, {name: v1, served: true}]}}`)), gone, atOnce)
	}
	scripts := func(gone bool, keys ...string) {
		data := map[string]any{}
		for _, key := range keys {
			data["lua.traffic.routing."+key] = "return obj.data"
		}
		cm := read(t, `{apiVersion: v1, kind: ConfigMap}`)
		cm.Object["data"] = data
		w.scriptsChanged(factOf(t, w.scriptFacts, cm), gone, atOnce)
	}
	named := map[namedKind]bool{}
	want := func(when string, kinds ...string) {
		t.Helper()
		got := []string{}
		for kind := range maps.Keys(w.unnamedKinds(named)) {
			got = append(got, kind.Version+" "+kind.Kind)
		}
		slices.Sort(got)
		if diff := cmp.Diff(append([]string{}, kinds...), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	want("before any is defined")
	define("kuma.io", "TrafficRoute", "Cluster", false)
	define("networking.istio.io", "VirtualService", "Namespaced", false)
	define("roads.example.com", "Road", "Cluster", false)
	want("one has a built-in script", "v1beta1 TrafficRoute")
	scripts(false, "Road.roads.example.com")
	want("a user's own", "v1beta1 Road", "v1beta1 TrafficRoute")
	scripts(true)
	want("which goes", "v1beta1 TrafficRoute")
	define("kuma.io", "TrafficRoute", "Cluster", true)
	want("no longer defined")
	define("gateway.networking.k8s.io", "BackendTLSPolicy", "Namespaced", false)
	named[namedKind{GroupVersionKind: schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"}, workload: true}] = true
	want("a kind of policies, while no Rollout is routed")
	named[namedKind{GroupVersionKind: schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"}}] = true
	want("once a Rollout is routed", "v1beta1 BackendTLSPolicy")
}

func TestWhatIsGoneIsWokenByWhatStillListsIt(t *testing.T) {
	t.Parallel()
	const web, gray = "c/shop/web", "c/shop/gray/routing"
	kuma := schema.GroupKind{Group: "kuma.io", Kind: "TrafficRoute"}
	route := &fact{name: types.NamespacedName{Name: "all"}, keptFacts: keptFacts{listed: map[string][]types.NamespacedName{"": {key("web")}, "TrafficRouting": {key("gray")}}}}
	unlisted := &fact{name: route.name, keptFacts: keptFacts{listed: map[string][]types.NamespacedName{}}}
	lists := func(w *Watcher, f *fact, gone bool) { w.referencedChanged(kuma)(f, gone, soon) }
	known := func(w *Watcher) {
		w.index.putDependencies(key("web"), dependenciesIn(t, pausedRollout))
		w.routings.putDependencies(key("gray"), factOf(t, routingFacts, read(t, grayRouting)).rollout)
		lists(w, route, false)
	}
	namespace := func(w *Watcher, name string) {
		w.namespaceChanged(&fact{name: types.NamespacedName{Name: name}}, true, atOnce)
	}
	for name, c := range map[string]struct {
		do   func(*Watcher)
		want []string
	}{
		"an object is seen that lists both":         {func(w *Watcher) { lists(w, route, false) }, []string{web, gray}},
		"both are there":                            {known, nil},
		"the TrafficRouting goes":                   {func(w *Watcher) { known(w); w.routingChanged(&fact{name: key("gray")}, true, atOnce) }, []string{gray}},
		"their namespace goes":                      {func(w *Watcher) { lists(w, route, false); namespace(w, "shop") }, []string{web, gray, web, gray}},
		"another one goes":                          {func(w *Watcher) { lists(w, route, false); namespace(w, "cart") }, []string{web, gray}},
		"it goes when they have been taken off":     {func(w *Watcher) { lists(w, route, false); lists(w, unlisted, false); namespace(w, "shop") }, []string{web, gray}},
		"it goes after the object that listed them": {func(w *Watcher) { lists(w, route, false); lists(w, route, true); namespace(w, "shop") }, []string{web, gray}},
	} {
		if diff := cmp.Diff(c.want, told(c.do)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A policy wakes the Rollouts of its Service. A copy that an executor created wakes the Rollouts of the gateway object
// that owns it.
func TestAPolicyWakesWhoRoutesByItsService(t *testing.T) {
	t.Parallel()
	rule := schema.GroupKind{Group: "networking.istio.io", Kind: "DestinationRule"}
	policy := func(metadata, host string) *fact {
		return factOf(t, policyFacts, read(t, `{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {namespace: shop, name: tuned`+metadata+`}, spec: {host: `+host+`}}`))
	}
	for name, c := range map[string]struct {
		policy *fact
		want   []string
	}{
		"of its Service":      {policy("", "web.shop.svc.cluster.local"), []string{"c/shop/web"}},
		"of another Service":  {policy("", "api"), nil},
		"of a Service's name": {policy("", "web.mall.svc.cluster.local"), nil},
		"a copy": {policy(`, labels: {sluice.dev/rollout-uid: u}, ownerReferences: [{apiVersion: networking.istio.io/v1, kind: VirtualService, name: web, uid: v}]`, "web-canary"),
			[]string{"c/shop/web"}},
	} {
		got := told(func(w *Watcher) {
			w.index.putDependencies(key("web"), dependenciesIn(t, pausedRollout))
			w.referencedChanged(rule)(c.policy, false, atOnce)
		})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
