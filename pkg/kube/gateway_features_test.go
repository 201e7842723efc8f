package kube

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
)

// A hint about a GatewayClass may come before this process's watch shows the change: the run sees the old class, and the Rollout is looked at
// again when the watch shows the new one.
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
	s.dependsOn(item{classes.item(), types.NamespacedName{Name: "edge"}.String()}, class("1"))

	var moved []types.NamespacedName
	r := newRecent()
	r.start(func(name types.NamespacedName) { moved = append(moved, name) })
	r.put(s.name(), s.versions())
	of := itemOf(classes.item(), class("2"))
	r.touched(of)
	if len(moved) != 1 || moved[0] != s.name() {
		t.Errorf("a change of the class has %v looked at", moved)
	}
	if now := print(class("2")); r.knew(s.name())[of].print == now {
		t.Errorf("the run is taken to have known %q", now)
	}
}
