package traffic

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// backend is a place that an object sends traffic to, as the object writes it: a Service by name or host, a subset of it, and its namespace where a field
// of its own names it.
type backend struct{ service, subset, namespace string }

func (b backend) String() string {
	text := b.service
	if b.namespace != "" {
		text = b.namespace + "/" + text
	}
	if b.subset != "" {
		text += " subset " + b.subset
	}
	return text
}

// belongsTo reports whether the backend is a Service, by the rules of [matchesService].
func (b backend) belongsTo(service string) bool { return matchesService(b.service, service) }

// matchesService reports whether a text means a Service. The text is its name, a host name that begins with the name, or Kuma's name of it. Kuma joins
// name, namespace and port by underscores. Names of Services have neither dots nor underscores.
func matchesService(written, service string) bool {
	rest, begins := strings.CutPrefix(written, service)
	return begins && (rest == "" || rest[0] == '.' || rest[0] == '_')
}

// MentionsService reports whether a spec contains, anywhere, a name that means a Service of a namespace.
func MentionsService(spec any, service, namespace string) bool {
	mentions := func(v any) bool { return MentionsService(v, service, namespace) }
	switch v := spec.(type) {
	case string:
		return serviceRef{service, namespace}.mentionedIn(v)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), mentions)
	case []any:
		return slices.ContainsFunc(v, mentions)
	}
	return false
}

// target is a backend within a split; weight is nil if the object sets none.
type target struct {
	backend
	weight *float64
}

// split is a list of targets that share the traffic of one rule.
type split []target

// splitsOf finds the splits anywhere in a spec. It knows no kinds: a split is a list of maps that have a destination with a host, or a list with one of
// the names that gateways give to lists of backends. Kuma writes a single destination in place of a list with one item.
func splitsOf(v any) []split {
	var found []split
	switch v := v.(type) {
	case map[string]any:
		if _, inList := v["weight"]; !inList {
			if b, ok := meshBackend(v); ok {
				found = append(found, split{{backend: b}})
			}
		}
		for key, e := range v {
			if items, ok := e.([]any); ok {
				if s := splitOf(key, items); len(s) > 0 {
					found = append(found, s)
				}
			}
			found = append(found, splitsOf(e)...)
		}
	case []any:
		for _, e := range v {
			found = append(found, splitsOf(e)...)
		}
	}
	return found
}

func splitOf(key string, items []any) split {
	if key == "mirrors" {
		return nil // copies of requests, whose answers the gateway drops
	}
	var s split
	for _, e := range items {
		item, ok := e.(map[string]any)
		if !ok {
			continue
		}
		if b, ok := backendOf(key, item); ok {
			s = append(s, target{backend: b, weight: toFloat(item["weight"])})
		}
	}
	return s
}

// meshBackend returns the backend of a destination that names its Service by a tag, as Kuma does.
func meshBackend(item map[string]any) (backend, bool) {
	to, _ := item["destination"].(map[string]any)
	service := firstString(to, "kuma.io/service")
	return backend{service: service, namespace: meshNamespace(service)}, service != ""
}

// meshNamespace returns the namespace in Kuma's name of a Service, <name>_<namespace>_svc_<port>; "" for other names.
func meshNamespace(service string) string {
	if parts := strings.Split(service, "_"); len(parts) > 2 && parts[2] == "svc" {
		return parts[1]
	}
	return ""
}

func backendOf(key string, item map[string]any) (backend, bool) {
	if b, ok := meshBackend(item); ok {
		return b, true
	}
	if to, ok := item["destination"].(map[string]any); ok {
		host, subset := firstString(to, "host"), firstString(to, "subset")
		return backend{service: host, subset: subset}, host != ""
	}
	switch key {
	case "mirror": // of a VirtualService
		return backend{service: firstString(item, "host"), subset: firstString(item, "subset")}, firstString(item, "host") != ""
	case "paths": // of an Ingress
		to, _ := item["backend"].(map[string]any)
		service, _ := to["service"].(map[string]any)
		name := firstString(service, "name")
		return backend{service: name}, name != ""
	case "backendRefs", "backends", "services", "splits", "alternateBackends", "destinations", "targets":
		name := firstString(item, "serviceName", "service", "backendName", "name", "host")
		if kind, group := firstString(item, "kind"), firstString(item, "group"); name != "" && kind != "InferencePool" && (kind != "" && kind != "Service" || group != "") {
			name = kind + "." + group + "/" + name // an object of another kind with that name
		}
		return backend{name, firstString(item, "serviceSubset", "subset"), firstString(item, "namespace")}, name != ""
	}
	return backend{}, false
}

// backendsIn returns all backends of a spec.
func backendsIn(spec any) map[backend]bool {
	set := map[backend]bool{}
	for _, s := range splitsOf(spec) {
		for _, t := range s {
			set[t.backend] = true
		}
	}
	return set
}

func firstString(m map[string]any, keys ...string) string {
	for _, k := range keys {
		if s, ok := m[k].(string); ok && s != "" {
			return s
		}
	}
	return ""
}

func toFloat(v any) *float64 {
	var f float64
	switch v := v.(type) {
	case int64:
		f = float64(v)
	case int:
		f = float64(v)
	case float64:
		f = v
	case json.Number:
		parsed, err := v.Float64()
		if err != nil {
			return nil
		}
		f = parsed
	default:
		return nil
	}
	return &f
}
