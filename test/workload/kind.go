package workload

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is a kind of workload other than Deployment.
type Kind struct {
	// Name is the name of its example, in examples/workloads.
	Name     string
	Resource schema.GroupVersionResource
	Kind     string
	// Daemon reports that it has no replicas: it runs a pod on each node on which its pods may run.
	Daemon bool
	// Ordinals reports that its pods have ordinals and go in descending order.
	Ordinals bool
	// Partition is the path of its own partition, under spec.updateStrategy; nil if it has none.
	Partition []string
}

// Kinds returns all kinds.
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

// Total returns the number of pods of all versions in the workload's status.
func (k Kind) Total(u *unstructured.Unstructured) int64 {
	if k.Daemon {
		return number(u, "status", "currentNumberScheduled")
	}
	return number(u, "status", "replicas")
}

// Ready returns the number of ready pods.
func (k Kind) Ready(u *unstructured.Unstructured) int64 {
	if k.Daemon {
		return number(u, "status", "numberReady")
	}
	return number(u, "status", "readyReplicas")
}

// Updated returns the number of pods of the newest revision, as the workload's own controller counts them.
func (k Kind) Updated(u *unstructured.Unstructured) int64 {
	if k.Daemon {
		return number(u, "status", "updatedNumberScheduled")
	}
	return number(u, "status", "updatedReplicas")
}

// Settled reports whether the workload's own controller runs the template in all pods, and all are available.
func (k Kind) Settled(u *unstructured.Unstructured) bool {
	want, available := number(u, "spec", "replicas"), "availableReplicas"
	if k.Daemon {
		want, available = number(u, "status", "desiredNumberScheduled"), "numberAvailable"
	}
	return number(u, "status", "observedGeneration") == u.GetGeneration() && k.Total(u) == want &&
		k.Updated(u) == want && number(u, "status", available) == want
}

func number(u *unstructured.Unstructured, fields ...string) int64 {
	n, _, _ := unstructured.NestedInt64(u.Object, fields...)
	return n
}
