package traffic

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// backend is a place that an object sends traffic to, as the object writes it: a Service by name or host, and a subset of it.
type backend struct{ service, subset string }

func (b backend) String() string {
	if b.subset == "" {
		return b.service
	}
	return b.service + " subset " + b.subset
}

// is reports whether the backend belongs to a Service: by its name, or by a host name that begins with it.
func (b backend) is(service string) bool { return names(b.service, service) }

func names(written, service string) bool {
	return written == service || strings.HasPrefix(written, service+".")
}

// Mentions reports whether a Service stands anywhere in a spec: by its name, or by a host name that begins with it.
func Mentions(spec any, service string) bool {
	mentions := func(v any) bool { return Mentions(v, service) }
	switch v := spec.(type) {
	case string:
		return names(v, service)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), mentions)
	case []any:
		return slices.ContainsFunc(v, mentions)
	}
	return false
}

// target is a backend within a split; weight is nil when the object gives none.
type target struct {
	backend
	weight *float64
}

// split is a list of targets that share the traffic of one rule.
type split []target

// splitsOf finds the splits anywhere in a spec. It knows no kind: a split is a list of maps that have a destination with a host,
// or whose list bears one of the names that gateways give to lists of backends.
func splitsOf(v any) []split {
	var found []split
	switch v := v.(type) {
	case map[string]any:
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
		return nil // copies of requests; nobody sees their answers
	}
	var s split
	for _, e := range items {
		item, ok := e.(map[string]any)
		if !ok {
			continue
		}
		if b, ok := backendOf(key, item); ok {
			s = append(s, target{backend: b, weight: number(item["weight"])})
		}
	}
	return s
}

func backendOf(key string, item map[string]any) (backend, bool) {
	if to, ok := item["destination"].(map[string]any); ok {
		host, subset := text(to, "host"), text(to, "subset")
		return backend{host, subset}, host != ""
	}
	switch key {
	case "backendRefs", "backends", "services", "splits", "alternateBackends", "destinations", "targets":
		name := text(item, "serviceName", "service", "backendName", "name", "host")
		return backend{name, text(item, "serviceSubset", "subset")}, name != ""
	}
	return backend{}, false
}

// backends are all backends of a spec.
func backends(spec any) map[backend]bool {
	set := map[backend]bool{}
	for _, s := range splitsOf(spec) {
		for _, t := range s {
			set[t.backend] = true
		}
	}
	return set
}

func text(m map[string]any, keys ...string) string {
	for _, k := range keys {
		if s, ok := m[k].(string); ok && s != "" {
			return s
		}
	}
	return ""
}

func number(v any) *float64 {
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
