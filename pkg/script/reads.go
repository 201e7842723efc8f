package script

import (
	"cmp"
	"errors"
	"slices"
)

// Reads is a kind of objects, with the fields in which a gateway object names one of
// them, anywhere in its spec. The objects may name further objects in the same way.
type Reads struct {
	// An absent APIVersion means the version of the gateway object.
	GroupVersionKind `json:",inline"`
	// Field holds the name. NamespaceField, in the same object, holds the namespace.
	// Without it, the namespace is the one of the object with the spec.
	Field          string `json:"field"`
	NamespaceField string `json:"namespaceField,omitempty"`
	// KindField is in the same object as Field. Field then counts only if KindField
	// holds Kind.
	KindField string `json:"kindField,omitempty"`
	// Under is the key of the objects in which Field counts; if absent it counts in
	// all.
	Under string `json:"under,omitempty"`
}

// Name is a name within a namespace.
type Name struct{ Namespace, Name string }

// For returns r for gateway objects of an API version.
func (r Reads) For(apiVersion string) Reads {
	r.APIVersion = cmp.Or(r.APIVersion, apiVersion)
	return r
}

func (r Reads) valid() error {
	if r.Kind == "" || r.Field == "" {
		return errors.New("it needs kind and field")
	}
	return nil
}

// Named returns the names in a spec, sorted and without duplicates. namespace is the
// namespace of the object with the spec.
func (r Reads) Named(spec any, namespace string) (names []Name) {
	var look func(key string, v any)
	look = func(key string, v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				look(key, e)
			}
		case map[string]any:
			if name := r.namedBy(v, namespace); name.Name != "" && (r.Under == "" || r.Under == key) {
				names = append(names, name)
			}
			for key, e := range v {
				look(key, e)
			}
		}
	}
	look("", spec)
	slices.SortFunc(names, func(a, b Name) int { return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) })
	return slices.Compact(names)
}

// namedBy returns the name in the fields of one object, the zero Name for none.
func (r Reads) namedBy(fields map[string]any, namespace string) Name {
	if kind, _ := fields[r.KindField].(string); r.KindField != "" && kind != r.Kind {
		return Name{}
	}
	name := Name{Namespace: namespace}
	name.Name, _ = fields[r.Field].(string)
	if there, _ := fields[r.NamespaceField].(string); r.NamespaceField != "" && there != "" {
		name.Namespace = there
	}
	return name
}
