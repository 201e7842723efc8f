package watcher

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/trafficrouting"
)

// routingFacts returns the routing that a TrafficRouting asks for, and the Rollouts that ask for it. Executors write
// its progress, and Rollouts wait for that.
func routingFacts(u *unstructured.Unstructured) facts {
	var t api.TrafficRouting
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &t); err != nil {
		t = api.TrafficRouting{ObjectMeta: t.ObjectMeta} // an executor reports the error
	}
	users := trafficrouting.RequestingRollouts(u.GetFinalizers())
	slices.Sort(users)
	f := facts{
		now:       []any{u.GetGeneration(), users},
		soon:      []any{t.Status.Phase, t.Status.AppliedGeneration, t.Status.Message, len(t.Status.Objects)},
		keptFacts: keptFacts{rollout: &dependencies{plan: routingPlan(&t)}},
	}
	if !slices.Contains(u.GetFinalizers(), api.FinalizerTrafficRouting) {
		f.calls = []string{"no finalizer"}
	}
	return f
}

// routingPlan returns the gateway objects that a TrafficRouting names, and those that its earlier versions may have
// routed. Errors in its spec do not matter here.
func routingPlan(t *api.TrafficRouting) *plan {
	p := &plan{uid: t.UID, generation: t.Generation, scripts: true}
	refs := slices.Clone(t.Status.Objects)
	for _, ref := range t.Spec.ObjectRef {
		refs = slices.Concat(refs, ref.CustomNetworkRefs, ref.NetworkRefs)
		if ref.Ingress != nil {
			of := rollout.IngressRef(ref.Ingress.Name, "")
			refs = append(refs, api.ObjectRef{APIVersion: of.APIVersion, Kind: of.Kind, Name: of.Name})
		}
	}
	for _, ref := range refs {
		p.addRoute(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), t.Namespace, ref.Name)
	}
	return p
}

// routingChanged wakes the Rollouts that wait for a TrafficRouting. It wakes the TrafficRouting itself unless an
// executor wrote it.
func (w *Watcher) routingChanged(f *fact, gone bool, u urgency) {
	now := f.rollout
	if gone {
		now = nil
	}
	w.routings.putDependencies(f.name, now)
	if now != nil && w.hasUnwatched(now) && u > never {
		w.requestFindKinds()
	}
	if u == atOnce && (!gone || slices.Contains(w.routings.orphanedOwners(), f.name)) {
		w.hintRouting(f.name)
	}
	if u > never {
		w.hintDependents(routingKind, f.name, atOnce)
	}
}

// hintRoutingsOf wakes the TrafficRoutings that a Rollout asked for before and asks for now. The Rollout may be
// deleted, or name another one.
func (w *Watcher) hintRoutingsOf(before, now *dependencies) {
	for _, d := range []*dependencies{before, now} {
		if d != nil && d.plan != nil && d.routing.Name != "" {
			w.hintRouting(d.routing)
		}
	}
}

// hintRouting sends a hint about a TrafficRouting.
func (w *Watcher) hintRouting(name types.NamespacedName) {
	if w.started.Load() {
		w.sendHint(name, queue.TaskRouting)
	}
}

func (w *Watcher) hintRoutingsMatching(want func(*dependencies) bool) {
	for _, name := range w.routings.namesMatching(want) {
		w.hintRouting(name)
	}
}
