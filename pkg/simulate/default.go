package simulate

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// withDefaults returns a manifest without the fields that only an API server sets, and with the defaults that a release relies on.
func withDefaults(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	switch o.GroupVersionKind().GroupKind().String() {
	case "ClusterAnalysisTemplate.sluice.dev", "GatewayClass.gateway.networking.k8s.io", "IngressClass.networking.k8s.io":
		o.SetNamespace("")
	case "Deployment.apps":
		setDefault(o, int64(1), "spec", "replicas")
		setDefault(o, "RollingUpdate", "spec", "strategy", "type")
		if kind, _, _ := unstructured.NestedString(o.Object, "spec", "strategy", "type"); kind == "RollingUpdate" {
			setDefault(o, "25%", "spec", "strategy", "rollingUpdate", "maxSurge")
			setDefault(o, "25%", "spec", "strategy", "rollingUpdate", "maxUnavailable")
		}
		setDefault(o, int64(600), "spec", "progressDeadlineSeconds")
	case "StatefulSet.apps":
		setDefault(o, int64(1), "spec", "replicas")
		setDefault(o, "RollingUpdate", "spec", "updateStrategy", "type")
		if kind, _, _ := unstructured.NestedString(o.Object, "spec", "updateStrategy", "type"); kind == "RollingUpdate" {
			setDefault(o, int64(0), "spec", "updateStrategy", "rollingUpdate", "partition")
		}
	case "DaemonSet.apps":
		setDefault(o, "RollingUpdate", "spec", "updateStrategy", "type")
	case "Service":
		setDefault(o, "ClusterIP", "spec", "type")
		ports, _, _ := unstructured.NestedSlice(o.Object, "spec", "ports")
		for _, port := range ports {
			if fields, ok := port.(map[string]any); ok && fields["targetPort"] == nil {
				fields["targetPort"] = fields["port"]
			}
		}
		if len(ports) > 0 {
			_ = unstructured.SetNestedSlice(o.Object, ports, "spec", "ports") // the list was read from this field
		}
	}
	return o
}

// setDefault sets the default of a field. It ignores a manifest whose parents of the field are no objects; the release refuses it.
func setDefault(o *unstructured.Unstructured, value any, fields ...string) {
	if _, found, err := unstructured.NestedFieldNoCopy(o.Object, fields...); !found && err == nil {
		_ = unstructured.SetNestedField(o.Object, value, fields...) // the error means such a manifest
	}
}
