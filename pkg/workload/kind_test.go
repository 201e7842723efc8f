package workload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

// kind has the facts of a kind that other packages read.
type kind struct {
	Lever           rollout.UpdateMechanism
	Type, HashLabel string
}

func TestKindsThatAreKnown(t *testing.T) {
	t.Parallel()
	byRevision := kind{rollout.MechanismPartition, "statefulset", "controller-revision-hash"}
	for name, c := range map[string]struct {
		ref  rollout.Ref
		want kind
	}{
		"a StatefulSet":                        {rollout.Ref{APIVersion: "apps/v1", Kind: "StatefulSet"}, byRevision},
		"an Advanced StatefulSet":              {rollout.Ref{APIVersion: "apps.kruise.io/v1beta1", Kind: "StatefulSet"}, byRevision},
		"an Advanced StatefulSet of old":       {rollout.Ref{APIVersion: "apps.kruise.io/v1alpha1", Kind: "StatefulSet"}, byRevision},
		"a CloneSet":                           {rollout.Ref{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet"}, kind{rollout.MechanismPartition, "cloneset", "pod-template-hash"}},
		"a DaemonSet":                          {rollout.Ref{APIVersion: "apps/v1", Kind: "DaemonSet"}, kind{rollout.MechanismOnDelete, "daemonset", "controller-revision-hash"}},
		"an Advanced DaemonSet":                {rollout.Ref{APIVersion: "apps.kruise.io/v1beta1", Kind: "DaemonSet"}, kind{rollout.MechanismPartition, "daemonset", "controller-revision-hash"}},
		"a Deployment is none":                 {rollout.Ref{APIVersion: "apps/v1", Kind: "Deployment"}, kind{}},
		"one of another group is none":         {rollout.Ref{APIVersion: "example.com/v1", Kind: "StatefulSet"}, kind{}},
		"one without a group is none":          {rollout.Ref{APIVersion: "v1", Kind: "StatefulSet"}, kind{}},
		"another kind of OpenKruise's is none": {rollout.Ref{APIVersion: "apps.kruise.io/v1alpha1", Kind: "SidecarSet"}, kind{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := workload.KindOf(c.ref)
			object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": c.ref.APIVersion, "kind": c.ref.Kind}}
			same, also := workload.KindOfObject(object)
			if ok != (c.want != kind{}) || also != ok {
				t.Fatalf("it is known: %t by its reference, %t by the object", ok, also)
			}
			for _, got := range []workload.Kind{got, same} {
				if diff := cmp.Diff(c.want, kind{got.Mechanism, got.Type, got.HashLabel}); diff != "" {
					t.Errorf("the kind differs (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestTheLabelTellsOfWhatIsLikeAStatefulSet(t *testing.T) {
	t.Parallel()
	ring := shape{"example.com/v1", "Ring", "statefulset"}
	is := label("rollouts.kruise.io/workload-type", "statefulset")
	for name, c := range map[string]struct {
		object *unstructured.Unstructured
		want   bool
	}{
		"with the label":       {ring.of(is), true},
		"with another label":   {ring.of(label("rollouts.kruise.io/workload-type", "cloneset")), false},
		"without pods":         {ring.of(is, set("{}", "spec", "template")), false},
		"a Deployment with it": {shape{"apps/v1", "Deployment", ""}.of(is), false},
		"another kind of OpenKruise with it, which no policy holds": {shape{"apps.kruise.io/v1alpha1", "BroadcastJob", ""}.of(is), false},
		"a StatefulSet without it":                                  {statefulSet.of(), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := workload.KindOfObject(c.object)
			if ok != c.want || ok && got.HashLabel != "controller-revision-hash" {
				t.Errorf("it is known: %t, as %s", ok, got.Type)
			}
		})
	}
}
