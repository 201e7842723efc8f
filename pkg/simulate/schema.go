package simulate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/sluice/deploy"
	"sluice.dev/sluice/pkg/api"
)

// crdSchemas returns the schemas of Sluice's kinds from their CustomResourceDefinitions.
func crdSchemas() (map[string]map[string]any, error) {
	text, err := deploy.Manifests(api.DefaultInstallation(), "crds")
	if err != nil {
		return nil, fmt.Errorf("read the CustomResourceDefinitions: %w", err)
	}
	definitions, err := objectsIn(text)
	if err != nil {
		return nil, fmt.Errorf("read the CustomResourceDefinitions: %w", err)
	}
	all := map[string]map[string]any{}
	for _, d := range definitions {
		kind, _, _ := unstructured.NestedString(d.Object, "spec", "names", "kind")
		versions, _, _ := unstructured.NestedSlice(d.Object, "spec", "versions")
		for _, v := range versions {
			version, _ := v.(map[string]any)
			name, _ := version["name"].(string)
			group, _, _ := unstructured.NestedString(d.Object, "spec", "group")
			schema, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
			all[group+"/"+name+" "+kind] = schema
		}
	}
	return all, nil
}

// fillDefaults sets the defaults of a schema in a value, as the API server does.
func fillDefaults(value any, schema map[string]any) {
	switch value := value.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		for name, p := range properties {
			property, _ := p.(map[string]any)
			if standard, ok := property["default"]; ok && value[name] == nil {
				value[name] = runtime.DeepCopyJSONValue(standard)
			}
			fillDefaults(value[name], property)
		}
		if members, ok := schema["additionalProperties"].(map[string]any); ok {
			for _, member := range value {
				fillDefaults(member, members)
			}
		}
	case []any:
		items, _ := schema["items"].(map[string]any)
		for _, element := range value {
			fillDefaults(element, items)
		}
	}
}
