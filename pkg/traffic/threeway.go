package traffic

import (
	"maps"
	"slices"
)

// threeWayMerge returns the owner's version of an object that another client changed after the last write of a release. It applies the changes between
// base, the rendering, and live to original. An item that names a canary of a release never came from the owner, and keeps its original value.
func threeWayMerge(live, original, base Content, m marks) Content {
	spec, _ := m.mergeValue(live.Spec, base.Spec, original.Spec)
	merged := Content{
		Spec:        spec,
		Labels:      m.mergeStrings(live.Labels, base.Labels, original.Labels),
		Annotations: m.mergeStrings(live.Annotations, base.Annotations, original.Annotations),
	}
	return merged.withLastApplied(live).deepCopy()
}

// marks are the traces that identify a rendering of a release.
type marks struct {
	services []serviceRef // canary Services
	shared   []string     // Services whose subset "canary" belongs to a release
	backends map[backend]bool
	items    map[string]bool // list items with a name, as JSON
	created  []map[string]any
}

// serviceRef is a Service by name and namespace; the namespace is "" if unknown.
type serviceRef struct{ name, namespace string }

// mentionedIn reports whether a text means the Service. Only Kuma's names contain a namespace, and they occur on objects of several namespaces.
func (s serviceRef) mentionedIn(written string) bool {
	of := meshNamespace(written)
	return matchesService(written, s.name) && (of == "" || s.namespace == "" || of == s.namespace)
}

// marksOn returns the marks of releases on the object, with the created objects that it refers to.
func (p *Plan) marksOn(es entries, original Content, base shape) marks {
	m := marksOf(es, original, base)
	for _, o := range p.ReferencedChildren() {
		m.services = append(m.services, serviceRef{name: o.GetName()})
	}
	return m
}

// marksOf collects the canary Services of the releases, and all backends and named items that base has and the original does not.
func marksOf(es entries, original Content, base shape) marks {
	m := marks{backends: backendsIn(base.Spec), items: namedItems(base.Spec), created: base.create}
	for b := range backendsIn(original.Spec) {
		delete(m.backends, b)
	}
	for item := range namedItems(original.Spec) {
		delete(m.items, item)
	}
	for _, e := range es.serviceEntries() {
		if e.ownService() {
			m.services = append(m.services, serviceRef{e.CanaryService, e.Namespace})
		} else {
			m.shared = append(m.shared, e.Service)
		}
	}
	return m
}

// foundIn reports whether a value contains a mark anywhere. key is the key of the list or map that holds the value.
func (m marks) foundIn(key string, v any) bool {
	switch v := v.(type) {
	case string:
		return slices.ContainsFunc(m.services, func(s serviceRef) bool { return s.mentionedIn(v) })
	case map[string]any:
		if b, ok := backendOf(key, v); ok && m.ownsBackend(b) {
			return true
		}
		if v["name"] != nil && m.items[jsonOf(v)] {
			return true
		}
		for k, e := range v {
			if m.foundIn(k, e) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return m.foundIn(key, e) })
	}
	return false
}

// canarySubset is the name that OpenKruise's scripts give to the canary's pods behind a Service that both versions share.
const canarySubset = "canary"

func (m marks) ownsBackend(b backend) bool {
	return m.backends[b] || b.subset == canarySubset && slices.ContainsFunc(m.shared, b.belongsTo)
}

func namedItems(v any) map[string]bool {
	found := map[string]bool{}
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			maps.Copy(found, namedItems(e))
		}
	case []any:
		for _, e := range v {
			if item, ok := e.(map[string]any); ok && item["name"] != nil {
				found[jsonOf(item)] = true
			}
			maps.Copy(found, namedItems(e))
		}
	}
	return found
}

func (m marks) mergeStrings(live, base, original map[string]string) map[string]string {
	merged := orEmpty(maps.Clone(original))
	for k, v := range live {
		if b, ok := base[k]; (!ok || b != v) && !m.foundIn("", v) {
			merged[k] = v
		}
	}
	for k := range base {
		if _, ok := live[k]; !ok {
			delete(merged, k)
		}
	}
	return merged
}

// mergeValue merges any value; nil means absent. ok is false if live contains a mark that cannot be separated from the owner's changes. merged is then the
// original.
func (m marks) mergeValue(live, base, original any) (merged any, ok bool) {
	if equalJSON(live, base) {
		return original, true
	}
	if lm, isMap := live.(map[string]any); isMap {
		bm, _ := base.(map[string]any)
		om, _ := original.(map[string]any)
		return m.mergeMap(lm, bm, om)
	}
	if !m.foundIn("", live) {
		return live, true
	}
	if ll, isList := live.([]any); isList {
		bl, _ := base.([]any)
		ol, _ := original.([]any)
		if list, ok := m.mergeList(ll, bl, ol); ok {
			return list, true
		}
	}
	return original, false
}

func (m marks) mergeMap(live, base, original map[string]any) (any, bool) {
	merged, ok := map[string]any{}, true
	for k, v := range original {
		merged[k] = v
	}
	for k, v := range live {
		one, clean := m.mergeValue(v, base[k], original[k])
		ok = ok && clean
		if one == nil {
			delete(merged, k)
		} else {
			merged[k] = one
		}
	}
	for k := range base {
		if _, there := live[k]; !there {
			delete(merged, k)
		}
	}
	if len(merged) == 0 && len(live) > 0 && original == nil {
		return nil, ok
	}
	return merged, ok
}

// mergeList finds the owner's changes in a list that contains items of a release. The owner may change items in place, add items or remove items, but only
// one of these at once.
func (m marks) mergeList(live, base, original []any) ([]any, bool) {
	partner := alignItems(base, original, m.created)
	pairs, ok := pairItems(live, base, partner)
	if !ok {
		return nil, false
	}
	var merged []any
	for i, v := range live {
		j := pairs[i]
		switch {
		case j < 0 && m.foundIn("", v):
			return nil, false
		case j < 0:
			merged = append(merged, v)
		case partner[j] < 0 && !coversRendered(v, base[j]):
			return nil, false
		case partner[j] >= 0:
			one, clean := m.mergeValue(v, base[j], original[partner[j]])
			if !clean {
				return nil, false
			}
			merged = append(merged, one)
		}
	}
	return merged, true
}

// pairItems returns the index in base of each item of live; -1 for a new item. ok is false if the pairs are ambiguous.
func pairItems(live, base []any, partner []int) (pairs []int, ok bool) {
	pairs = make([]int, len(live))
	if len(live) == len(base) {
		for i := range live {
			pairs[i] = i
		}
		return pairs, true
	}
	j, matched := 0, 0
	for i, v := range live {
		pairs[i] = -1
		for k := j; k < len(base); k++ {
			if equalJSON(v, base[k]) || partner[k] < 0 && coversRendered(v, base[k]) {
				pairs[i], j = k, k+1
				matched++
				break
			}
		}
	}
	return pairs, matched == min(len(live), len(base))
}

// coversRendered reports whether live contains all rendered fields. The API server may have added defaults.
func coversRendered(live, rendered any) bool {
	switch r := rendered.(type) {
	case nil:
		return true
	case map[string]any:
		l, ok := live.(map[string]any)
		for k, v := range r {
			ok = ok && coversRendered(l[k], v)
		}
		return ok
	case []any:
		l, ok := live.([]any)
		if !ok || len(l) != len(r) {
			return false
		}
		for i, v := range r {
			ok = ok && coversRendered(l[i], v)
		}
		return ok
	}
	return equalJSON(live, rendered)
}

// alignItems returns the index in original of the item from which each item of base was rendered; -1 for an item that a release added.
func alignItems(base, original []any, created []map[string]any) []int {
	partner, taken := make([]int, len(base)), make([]bool, len(original))
	find := func(same func(b, o any) bool) {
		for j, b := range base {
			for i, o := range original {
				if partner[j] < 0 && !taken[i] && same(b, o) {
					partner[j], taken[i] = i, true
				}
			}
		}
	}
	for j := range partner {
		partner[j] = -1
	}
	find(equalJSON)
	if len(base) == len(original) {
		for j := range partner {
			if partner[j] < 0 && !taken[j] {
				partner[j], taken[j] = j, true
			}
		}
		return partner
	}
	find(func(rendered, was any) bool { return sendsWhereItDid(resolveForwarding(rendered, created), was) })
	return partner
}

// sendsWhereItDid reports whether a rendered rule still has all backends of an original rule.
func sendsWhereItDid(rendered, original any) bool {
	is, was := backendsIn(rendered), backendsIn(original)
	for b := range was {
		if !is[b] {
			return false
		}
	}
	return len(was) > 0
}
