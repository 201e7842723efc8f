package watcher

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/script"
)

func TestKindsOfNoNamespaceThatHaveAScriptAreWatchedAlthoughNobodyNamesThem(t *testing.T) {
	t.Parallel()
	w := &Watcher{
		Options: Options{Scripts: script.NewLibrary(luaconfiguration.FS, "")}, clients: clients{}, index: newIndex(), routings: newIndex(),
		definitions: make(chan struct{}, 1), watches: map[namedKind]*kindWatch{}, meshes: map[schema.GroupVersionKind]bool{},
	}
	w.scripted = w.scriptedBy(nil)
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
	want := func(when string, kinds ...string) {
		t.Helper()
		got := []string{}
		for kind := range maps.Keys(w.shared()) {
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
}
