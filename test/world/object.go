package world

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
)

// Client returns the administrator's client for a kind that scenarios handle.
func (w *World) Client(t testing.TB, namespace, kind string) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	resources := map[string]schema.GroupVersionResource{
		"deployment":          {Group: "apps", Version: "v1", Resource: "deployments"},
		"daemonset":           {Group: "apps", Version: "v1", Resource: "daemonsets"},
		"statefulset":         {Group: "apps", Version: "v1", Resource: "statefulsets"},
		"replicaset":          {Group: "apps", Version: "v1", Resource: "replicasets"},
		"controllerrevision":  {Group: "apps", Version: "v1", Resource: "controllerrevisions"},
		"pod":                 {Version: "v1", Resource: "pods"},
		"service":             {Version: "v1", Resource: "services"},
		"event":               {Version: "v1", Resource: "events"},
		"virtualservice":      {Group: "networking.istio.io", Version: "v1beta1", Resource: "virtualservices"},
		"viaduct":             {Group: "roads.example.com", Version: "v1", Resource: "viaducts"}, // a kind of one scenario
		"destinationrule":     {Group: "networking.istio.io", Version: "v1beta1", Resource: "destinationrules"},
		"ingress":             IngressResource(),
		"configmap":           {Version: "v1", Resource: "configmaps"},
		"httproute":           {Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"},
		"grpcroute":           {Group: "gateway.networking.k8s.io", Version: "v1", Resource: "grpcroutes"},
		"tcproute":            {Group: "gateway.networking.k8s.io", Version: "v1", Resource: "tcproutes"},
		"tlsroute":            {Group: "gateway.networking.k8s.io", Version: "v1", Resource: "tlsroutes"},
		"ingressroute":        {Group: "traefik.io", Version: "v1alpha1", Resource: "ingressroutes"},
		"traefikservice":      {Group: "traefik.io", Version: "v1alpha1", Resource: "traefikservices"},
		"authorizationpolicy": {Group: "security.istio.io", Version: "v1", Resource: "authorizationpolicies"},
		"backendtlspolicy":    {Group: "gateway.networking.k8s.io", Version: "v1", Resource: "backendtlspolicies"},
		"middleware":          {Group: "traefik.io", Version: "v1alpha1", Resource: "middlewares"},
		"apisixroute":         {Group: "apisix.apache.org", Version: "v2", Resource: "apisixroutes"},
		"apisixpluginconfig":  {Group: "apisix.apache.org", Version: "v2", Resource: "apisixpluginconfigs"},
		"trafficroute":        {Group: "kuma.io", Version: "v1alpha1", Resource: "trafficroutes"},
		"trafficrouting":      api.TrafficRoutingResource(),
		"rollout":             api.RolloutResource(),
		"rollouthistory":      api.RolloutHistoryResource(),
		"fleetrollout":        api.FleetRolloutResource(),
		"fleettarget":         api.FleetTargetResource(),
		"fleetmember":         api.FleetMemberResource(),
	}
	resource, ok := resources[kind]
	if !ok {
		t.Fatalf("scenarios do not handle the kind %s yet", kind)
	}
	return client.Resource(resource).Namespace(namespace)
}

// Get reads an object. It returns nil if the object does not exist.
func (w *World) Get(t testing.TB, namespace, kind, name string) *unstructured.Unstructured {
	t.Helper()
	u, err := w.Client(t, namespace, kind).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Patch sends a merge patch, to a subresource if one is named, and returns the API server's error.
func (w *World) Patch(t testing.TB, namespace, kind, name, body string, subresource ...string) error {
	t.Helper()
	for {
		_, err := w.Client(t, namespace, kind).Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "tester"}, subresource...)
		if !controlplane.Unanswered(err) {
			return err
		}
	}
}

// AwaitObject waits until an object is as a scenario wants it, and returns it. The predicate gets nil if the object
// does not exist.
func (w *World) AwaitObject(t testing.TB, namespace, kind, name, want string, reached func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	t.Helper()
	u, err := controlplane.AwaitObject(Patient(t), w.Client(t, namespace, kind), name, reached)
	if err != nil {
		t.Fatalf("%s %s/%s did not get there: %v; wanted %s; it is %s", kind, namespace, name, err, want, fmt.Sprint(w.Get(t, namespace, kind, name)))
	}
	return u
}

// Available waits until all pods of a Deployment run its template.
func (w *World) Available(t testing.TB, namespace, name string) {
	t.Helper()
	w.AwaitObject(t, namespace, "deployment", name, "all pods available", func(u *unstructured.Unstructured) bool {
		if u == nil {
			return false
		}
		number := func(fields ...string) int64 { n, _, _ := unstructured.NestedInt64(u.Object, fields...); return n }
		want := number("spec", "replicas")
		return number("status", "observedGeneration") == u.GetGeneration() && number("status", "updatedReplicas") == want &&
			number("status", "availableReplicas") == want && number("status", "replicas") == want
	})
}

// Written returns the parts of an object that users and tools write, with its generation. A write without a change does
// not change them.
func Written(u *unstructured.Unstructured) map[string]any {
	return map[string]any{"spec": u.Object["spec"], "annotations": u.GetAnnotations(), "labels": u.GetLabels(), "generation": u.GetGeneration()}
}
