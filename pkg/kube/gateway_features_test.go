package kube

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
)

// A hint about a GatewayClass may come before this process's watch shows the change. The run sees the old class, and
// the executor reconciles the Rollout again when the watch shows the new one.
func TestARolloutIsLookedAtAgainWhenTheClassOfItsGatewayChanges(t *testing.T) {
	t.Parallel()
	classes := watchedKind{GroupVersionResource: schema.GroupVersionResource{Group: gatewayAPI, Version: "v1", Resource: "gatewayclasses"}}
	class := func(version string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetName("edge")
		u.SetResourceVersion(version)
		return u
	}
	s := &Snapshot{rollout: &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}}
	s.addDependency(trackedItem{classes.itemKind(), types.NamespacedName{Name: "edge"}.String()}, class("1"))

	var moved []types.NamespacedName
	r := newChangeTracker()
	r.startTracking(func(name types.NamespacedName) { moved = append(moved, name) })
	r.putVersions(s.rolloutKey(), s.itemVersions())
	of := itemOf(classes.itemKind(), class("2"))
	r.notifyRollouts(of)
	if len(moved) != 1 || moved[0] != s.rolloutKey() {
		t.Errorf("a change of the class has %v looked at", moved)
	}
	if now := fingerprintOf(class("2")); r.versionsOf(s.rolloutKey())[of].fingerprint == now {
		t.Errorf("the run is taken to have known %q", now)
	}
}
