package kube

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

func TestWhichNamespacesAnOwnerAllows(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]bool{
		"": false, "shop": true, "cart, shop": true, "cart,shop": true, "*": true, "cart, *": true, "shops": false, "sho": false, "cart": false, "*op": false,
	} {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetAnnotations(map[string]string{api.AnnotationAllowNamespaces: written})
		if got := allowsNamespace(u, "shop"); got != want {
			t.Errorf("%q allows shop: %t, want %t", written, got, want)
		}
	}
}
