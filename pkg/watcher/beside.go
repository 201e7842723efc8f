package watcher

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/script"
)

// gatewayAPI is the group in which a route is attached to a Gateway, whose class tells what it supports.
const gatewayAPI = "gateway.networking.k8s.io"

// besideRoute are, by the kind of a gateway object, the kinds that the routing by it depends on as well: those of what its built-in script makes
// beside it, and those that tell what its gateway supports. What the scripts of users make is not among them.
var besideRoute = sync.OnceValue(func() map[schema.GroupKind][]namedKind {
	beside := map[schema.GroupKind][]namedKind{}
	for kind, said := range script.NewLibrary(luaconfiguration.FS, "").Capabilities(script.ConfigMap{}) {
		var kinds []namedKind
		for _, made := range said.Creates {
			kinds = append(kinds, namedKind{GroupVersionKind: schema.FromAPIVersionAndKind(made.APIVersion, made.Kind), made: true})
		}
		if len(said.Needs) > 0 {
			for _, name := range []string{"Gateway", "GatewayClass"} {
				kinds = append(kinds, namedKind{GroupVersionKind: schema.GroupVersionKind{Group: gatewayAPI, Version: "v1", Kind: name}, supports: true})
			}
		}
		beside[schema.GroupKind{Group: kind.Group, Kind: kind.Kind}] = kinds
	}
	return beside
})

// gatewayFacts are the class of a Gateway, and what a class says that it supports.
func gatewayFacts(u *unstructured.Unstructured) facts {
	class, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "gatewayClassName")
	features, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "supportedFeatures")
	return facts{now: []any{class, features}}
}
