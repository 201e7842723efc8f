package workload

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is a kind of workload that is no Deployment.
type Kind struct {
	// Name is that of its example, in examples/workloads.
	Name     string
	Resource schema.GroupVersionResource
	Kind     string
	// Daemon tells that it has no replicas of its own: it runs a pod on each node that its pods may run on.
	Daemon bool
	// Ordinals tells that its pods are numbered and go in the order of their numbers, the highest first.
	Ordinals bool
	// Partition are the fields of its own partition, under spec.updateStrategy; nil where there is none.
	Partition []string
}

// Kinds are all of them.
func Kinds() []Kind {
	rolling := []string{"rollingUpdate", "partition"}
	return []Kind{
		{
			Name: "statefulset", Kind: "StatefulSet", Ordinals: true, Partition: rolling,
			Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"},
		},
		{
			Name: "daemonset", Kind: "DaemonSet", Daemon: true,
			Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"},
		},
		{
			Name: "cloneset", Kind: "CloneSet", Partition: rolling[1:],
			Resource: schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1alpha1", Resource: "clonesets"},
		},
		{
			Name: "advanced-statefulset", Kind: "StatefulSet", Ordinals: true, Partition: rolling,
			Resource: schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1beta1", Resource: "statefulsets"},
		},
		{
			Name: "advanced-daemonset", Kind: "DaemonSet", Daemon: true, Partition: rolling,
			Resource: schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1alpha1", Resource: "daemonsets"},
		},
	}
}

// Total is how many pods the workload has, of all versions, as its status tells.
func (k Kind) Total(u *unstructured.Unstructured) int64 {
	if k.Daemon {
		return number(u, "status", "currentNumberScheduled")
	}
	return number(u, "status", "replicas")
}

// Ready is how many of them are ready.
func (k Kind) Ready(u *unstructured.Unstructured) int64 {
	if k.Daemon {
		return number(u, "status", "numberReady")
	}
	return number(u, "status", "readyReplicas")
}

// Settled reports whether the workload's own controller runs the template in all pods, and all are available.
func (k Kind) Settled(u *unstructured.Unstructured) bool {
	want, updated, available := number(u, "spec", "replicas"), "updatedReplicas", "availableReplicas"
	if k.Daemon {
		want, updated, available = number(u, "status", "desiredNumberScheduled"), "updatedNumberScheduled", "numberAvailable"
	}
	return number(u, "status", "observedGeneration") == u.GetGeneration() && k.Total(u) == want &&
		number(u, "status", updated) == want && number(u, "status", available) == want
}

func number(u *unstructured.Unstructured, fields ...string) int64 {
	n, _, _ := unstructured.NestedInt64(u.Object, fields...)
	return n
}
