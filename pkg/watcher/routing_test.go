package watcher

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/queue"
)

const grayRouting = `
apiVersion: rollouts.kruise.io/v1alpha1
kind: TrafficRouting
metadata: {name: gray, namespace: shop, uid: g, generation: 1, resourceVersion: "1", finalizers: [rollouts.kruise.io/trafficrouting]}
spec:
  objectRef: [{service: web, customNetworkRefs: [{apiVersion: networking.istio.io/v1, kind: VirtualService, name: web}]}]
  strategy: {weight: 20}
status: {phase: Healthy, observedGeneration: 1, objects: [{apiVersion: networking.istio.io/v1, kind: VirtualService, name: old}]}`

func finalizers(list ...any) change { return set(list, "metadata", "finalizers") }

func TestWhatWakesATrafficRouting(t *testing.T) {
	t.Parallel()
	const own = api.FinalizerTrafficRouting
	check(t, routingFacts, grayRouting, wakes{
		"another spec":              {set(int64(2), "metadata", "generation"), atOnce},
		"a Rollout that asks":       {finalizers(own, api.FinalizerProgressingPrefix+"web"), atOnce},
		"another one's finalizer":   {finalizers(own, "example.com/x"), never},
		"our finalizer gone":        {unset("metadata", "finalizers"), atOnce},
		"its deletion":              {set("2026-01-01T00:00:00Z", "metadata", "deletionTimestamp"), atOnce},
		"a phase, for its Rollouts": {set("Progressing", "status", "phase"), soon},
		"that it is applied":        {set(int64(1), "status", "appliedGeneration"), soon},
		"a label":                   {set("x", "metadata", "labels", "l"), never},
	})
}

// told returns the keys that a watcher hints while do runs.
func told(do func(*Watcher)) (keys []string) {
	w := &Watcher{Options: Options{ClusterName: "c"}, index: newIndex(), routings: newIndex(), findRequests: make(chan struct{}, 1),
		watches: map[namedKind]*kindWatch{}, gathered: map[types.NamespacedName]bool{}, hints: prometheus.NewCounter(prometheus.CounterOpts{Name: "hints"})}
	w.send = func(k queue.Key) { keys = append(keys, k.String()) }
	w.started.Store(true)
	do(w)
	return keys
}

func TestATrafficRoutingAndItsRolloutsWakeEachOther(t *testing.T) {
	t.Parallel()
	const rollout, routing = "c/shop/web", "c/shop/gray/routing"
	asking := all(set("gray", "spec", "strategy", "canary", "trafficRoutingRef"), set(int64(3), "metadata", "generation"))
	see := func(w *Watcher, change change, u urgency) {
		r := read(t, pausedRollout)
		change(r)
		w.rolloutChanged(&fact{name: key("web"), keptFacts: keptFacts{rollout: w.index.rolloutFacts(typed[*rolloutView](t, r)).rollout}}, false, u)
	}
	hear := func(w *Watcher, gone bool, u urgency) {
		f := factOf(t, routingFacts, read(t, grayRouting))
		w.routingChanged(f, gone, u)
	}
	for name, c := range map[string]struct {
		do   func(*Watcher)
		want []string
	}{
		"a Rollout that begins to name it":  {func(w *Watcher) { see(w, asking, atOnce) }, []string{rollout, routing}},
		"one that names none":               {func(w *Watcher) { see(w, all(), atOnce) }, []string{rollout}},
		"one that no longer names it":       {func(w *Watcher) { see(w, asking, never); see(w, all(), atOnce) }, []string{rollout, routing}},
		"its own change wakes it":           {func(w *Watcher) { hear(w, false, atOnce) }, []string{routing}},
		"and the Rollouts that name it":     {func(w *Watcher) { see(w, asking, never); hear(w, false, atOnce) }, []string{routing, rollout}},
		"what an executor wrote wakes them": {func(w *Watcher) { see(w, asking, never); hear(w, false, soon) }, []string{rollout}},
		"its end wakes them":                {func(w *Watcher) { see(w, asking, never); hear(w, true, atOnce) }, []string{rollout}},
		"a gateway object that it names": {func(w *Watcher) {
			hear(w, false, never)
			w.referencedChanged(schema.GroupKind{Group: "networking.istio.io", Kind: "VirtualService"})(&fact{name: key("web")}, false, atOnce)
		}, []string{routing}},
		"one that may carry it from before": {func(w *Watcher) {
			hear(w, false, never)
			w.referencedChanged(schema.GroupKind{Group: "networking.istio.io", Kind: "VirtualService"})(&fact{name: key("old")}, false, atOnce)
		}, []string{routing}},
		"another one": {func(w *Watcher) {
			hear(w, false, never)
			w.referencedChanged(schema.GroupKind{Group: "networking.istio.io", Kind: "VirtualService"})(&fact{name: key("new")}, false, atOnce)
		}, nil},
	} {
		if diff := cmp.Diff(c.want, told(c.do)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A user may write an invalid TrafficRouting. It depends on nothing, and an executor reports the error.
func TestATrafficRoutingThatCannotBeReadIsSeenAllTheSame(t *testing.T) {
	t.Parallel()
	u := read(t, grayRouting)
	unstructured.RemoveNestedField(u.Object, "status")
	set("nonsense", "spec", "strategy", "weight")(u)
	if f := routingFacts(u); f.rollout == nil || len(f.rollout.objects) != 0 {
		t.Errorf("it depends on %+v", f.rollout)
	}
}
