package simulate

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// defaulted is a manifest without what only an API server gives, and with the defaults by which releases go.
func defaulted(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	switch o.GroupVersionKind().GroupKind().String() {
	case "ClusterAnalysisTemplate.sluice.dev", "GatewayClass.gateway.networking.k8s.io", "IngressClass.networking.k8s.io":
		o.SetNamespace("")
	case "Deployment.apps":
		standard(o, int64(1), "spec", "replicas")
		standard(o, "RollingUpdate", "spec", "strategy", "type")
		if kind, _, _ := unstructured.NestedString(o.Object, "spec", "strategy", "type"); kind == "RollingUpdate" {
			standard(o, "25%", "spec", "strategy", "rollingUpdate", "maxSurge")
			standard(o, "25%", "spec", "strategy", "rollingUpdate", "maxUnavailable")
		}
		standard(o, int64(600), "spec", "progressDeadlineSeconds")
	case "StatefulSet.apps":
		standard(o, int64(1), "spec", "replicas")
		standard(o, "RollingUpdate", "spec", "updateStrategy", "type")
		if kind, _, _ := unstructured.NestedString(o.Object, "spec", "updateStrategy", "type"); kind == "RollingUpdate" {
			standard(o, int64(0), "spec", "updateStrategy", "rollingUpdate", "partition")
		}
	case "DaemonSet.apps":
		standard(o, "RollingUpdate", "spec", "updateStrategy", "type")
	case "Service":
		standard(o, "ClusterIP", "spec", "type")
		ports, _, _ := unstructured.NestedSlice(o.Object, "spec", "ports")
		for _, port := range ports {
			if fields, ok := port.(map[string]any); ok && fields["targetPort"] == nil {
				fields["targetPort"] = fields["port"]
			}
		}
		if len(ports) > 0 {
			_ = unstructured.SetNestedSlice(o.Object, ports, "spec", "ports") // it was read from there
		}
	}
	return o
}

// standard gives a field its default. A manifest whose parents of it are no objects is left for the release to refuse.
func standard(o *unstructured.Unstructured, value any, fields ...string) {
	if _, found, err := unstructured.NestedFieldNoCopy(o.Object, fields...); !found && err == nil {
		_ = unstructured.SetNestedField(o.Object, value, fields...) // as said
	}
}
