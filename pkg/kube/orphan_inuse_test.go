package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
)

func TestWhatLeadsToWhatAReleaseMade(t *testing.T) {
	t.Parallel()
	gone := types.NamespacedName{Namespace: "shop", Name: "web"}
	made := []orphanObject{{resource: "Service", object: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web-canary"}}}}
	to := func(host any) map[string]any {
		return map[string]any{"http": []any{map[string]any{"weight": int64(1), "route": []any{map[string]any{"destination": map[string]any{"host": host}}}}}}
	}
	for name, c := range map[string]struct {
		releases string
		spec     map[string]any
		want     bool
	}{
		"nothing at all":                      {"", to("web"), false},
		"the name of the Service":             {"", to("web-canary"), true},
		"its name in full":                    {"", to("web-canary.shop.svc.cluster.local"), true},
		"another Service":                     {"", to("web-canary-2"), false},
		"no text":                             {"", to(nil), false},
		"an entry of the Rollout":             {`{"u":{"namespace":"shop","name":"web","service":"web","canaryService":"web"}}`, to("web"), true},
		"an entry of another one":             {`{"u":{"namespace":"shop","name":"api","service":"web","canaryService":"web"}}`, to("web"), false},
		"an entry of one of another place":    {`{"u":{"namespace":"mall","name":"web","service":"web","canaryService":"web"}}`, to("web"), false},
		"an entry of one that routes for it":  {`{"u":{"namespace":"shop","name":"web","kind":"TrafficRouting","service":"web","canaryService":"web"}}`, to("web"), false},
		"an entry beside that of another one": {`{"a":{"namespace":"shop","name":"api","service":"a","canaryService":"a"},"u":{"namespace":"shop","name":"web","service":"web","canaryService":"web"}}`, to("web"), true},
		"a policy of the Service":             {"", map[string]any{"kind": "DestinationRule", "host": "web-canary"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := &unstructured.Unstructured{Object: map[string]any{"spec": c.spec}}
			if kind, is := c.spec["kind"].(string); is {
				u.SetGroupVersionKind(schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1", Kind: kind})
			}
			u.SetAnnotations(map[string]string{api.AnnotationReleases: c.releases})
			if got := leadsToOrphan(u, gone, made); got != c.want {
				t.Errorf("it leads there: %v", got)
			}
		})
	}
}
