package traffic

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
)

// Release is one release as far as gateway objects are concerned.
type Release struct {
	// UID, Namespace and Name are those of the Rollout, or of the object of another Kind that routes.
	UID, Namespace, Name string
	// Kind is empty for a Rollout.
	Kind string
	// Epoch counts the releases of the Rollout.
	Epoch int64
	// CanaryService equals Service when the canary has no Service of its own.
	Service, CanaryService string
	Terms
	// Further are the other Services by which the same object routes to the workload.
	Further []Served
	// PatchLabels and PatchAnnotations are what the canary's pods carry beyond the template.
	PatchLabels, PatchAnnotations map[string]string
	// Carries are the stable Services whose policies the release copies for this object. Subsets are the subsets of these Services that other gateway objects
	// of the release lead to.
	Carries []string
	Subsets map[string][]string
}

// Terms are how a release is routed by a Service, beyond its names.
type Terms struct {
	// Rules are those of the object that may be touched; nil for all that lead to the Service.
	Rules []string `json:"rules,omitempty"`
	// Tag marks the requests that are for canaries; nil when nothing does.
	Tag *api.TrafficTag `json:"tag,omitempty"`
	// Ports are the Service's, and Revisions those of the pods behind it; nil unless the script wants to be told.
	Ports     []script.Port     `json:"ports,omitempty"`
	Revisions *script.Revisions `json:"revisions,omitempty"`
}

// Served is a Service of a release on an object.
type Served struct {
	Service       string `json:"service"`
	CanaryService string `json:"canaryService"`
	Terms
}

// Strategy is what one step asks of a gateway.
type Strategy struct {
	// Weight is the canary's share, nil when the step sets none.
	Weight                *rollout.Percent      `json:"weight,omitempty"`
	Matches               []api.HTTPRouteMatch  `json:"matches,omitempty"`
	RequestHeaderModifier *api.HTTPHeaderFilter `json:"requestHeaderModifier,omitempty"`
	// Mirror is the share of the requests that are copied to the canary, nil for none.
	Mirror *rollout.Percent `json:"mirror,omitempty"`
}

// StrategyOf takes the part of a step that a gateway carries out.
func StrategyOf(step rollout.Step) Strategy {
	return Strategy{Weight: step.Weight, Matches: step.Matches, RequestHeaderModifier: step.RequestHeaderModifier, Mirror: step.Mirror}
}

// routesToCanary reports whether the strategy sends any request to the canary, or a copy of one.
func (s Strategy) routesToCanary() bool {
	return s.Weight != nil && *s.Weight > 0 || len(s.Matches) > 0 || s.Mirror != nil
}

// takesAllTraffic reports whether the canary is to get everything, so that the stable Service may go from the object.
func (s Strategy) takesAllTraffic() bool { return s.Weight != nil && *s.Weight >= 100 }

// describeStep says to people what is carried out.
func (r Release) describeStep(n int32) string {
	switch {
	case r.Kind == "" && n < 0:
		return fmt.Sprintf("a share of %d%%", -n)
	case r.Kind == "":
		return fmt.Sprintf("step %d", n)
	}
	return "its strategy"
}

// entry is one release on an object: all that any executor needs to render it again.
type entry struct {
	UID              string            `json:"-"`
	Namespace        string            `json:"namespace,omitempty"`
	Name             string            `json:"name"`
	Kind             string            `json:"kind,omitempty"`
	Service          string            `json:"service"`
	CanaryService    string            `json:"canaryService"`
	Epoch            int64             `json:"epoch"`
	Step             int32             `json:"step"`
	PatchLabels      map[string]string `json:"patchLabels,omitempty"`
	PatchAnnotations map[string]string `json:"patchAnnotations,omitempty"`
	Terms
	Further []Served `json:"further,omitempty"`
	Strategy

	services []script.Service // all of the release, in one of [entry.serviceEntries]
	others   []entry          // the other releases on the object and beside it, in the one that is asked for
}

func (r Release) entryAt(step int32, s Strategy) entry {
	return entry{
		UID: r.UID, Namespace: r.Namespace, Name: r.Name, Kind: r.Kind, Service: r.Service, CanaryService: r.CanaryService,
		Epoch: r.Epoch, Step: step, PatchLabels: orNil(r.PatchLabels), PatchAnnotations: orNil(r.PatchAnnotations), Terms: r.Terms, Further: r.Further, Strategy: s,
	}
}

// String says who routes, to people.
func (e entry) String() string {
	if e.Kind == "" {
		return "the release of Rollout " + e.Name
	}
	return e.Kind + " " + e.Name
}

// serviceEntries are the entries of one Service each that a release consists of. They know of each other.
func (e entry) serviceEntries() []entry {
	e.services = []script.Service{{Stable: e.Service, Canary: e.CanaryService}}
	for _, other := range e.Further {
		e.services = append(e.services, script.Service{Stable: other.Service, Canary: other.CanaryService})
	}
	parts := []entry{e}
	for _, other := range e.Further {
		part := e
		part.Service, part.CanaryService, part.Terms = other.Service, other.CanaryService, other.Terms
		parts = append(parts, part)
	}
	return parts
}

func (e entry) ownService() bool { return e.CanaryService != e.Service }

// rendersLike reports whether two entries of one release render the same.
func (e entry) rendersLike(other entry) bool {
	e.Step, e.Epoch, other.Step, other.Epoch = 0, 0, 0, 0
	return jsonOf(e) == jsonOf(other)
}

// entries are the releases on an object by UID.
type entries map[string]entry

// parseEntries reads the annotation. What cannot be read counts as absent: each executor puts its own entry back.
func parseEntries(text string) entries {
	var es entries
	if text == "" || json.Unmarshal([]byte(text), &es) != nil || es == nil {
		return entries{}
	}
	for uid, e := range es {
		if e.Name == "" || e.Service == "" {
			delete(es, uid)
			continue
		}
		e.UID = uid
		es[uid] = e
	}
	return es
}

func (es entries) withEntry(e entry) entries {
	next := maps.Clone(es)
	next[e.UID] = e
	return next
}

func (es entries) withoutEntry(uid string) entries {
	next := maps.Clone(es)
	delete(next, uid)
	return next
}

// inheritOrphan gives a release the entry of a Rollout of the same name that was removed by force: a name is unique in its namespace, so
// nobody else will ever take it off.
func (es entries) inheritOrphan(rel Release) entries {
	next := maps.Clone(es)
	for uid, e := range es {
		if uid == rel.UID || e.Namespace != rel.Namespace || e.Name != rel.Name || e.Kind != rel.Kind {
			continue
		}
		delete(next, uid)
		if _, listed := es[rel.UID]; !listed {
			e.UID = rel.UID
			next[rel.UID] = e
		}
	}
	return next
}

// sortedByName is the order in which releases are folded: by name, so that it does not depend on who came first.
func (es entries) sortedByName() []entry {
	return slices.SortedFunc(maps.Values(es), func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
}

// serviceEntries are the releases by Service, in the order in which they are folded.
func (es entries) serviceEntries() []entry {
	var all []entry
	for _, e := range es.sortedByName() {
		all = append(all, e.serviceEntries()...)
	}
	return all
}

// ReleasesOn lists the releases on an object in the order in which they shape it. A caller that finds one whose Rollout no longer
// exists takes it off with [ObserveRoute] and [Plan.RestoredObject].
func ReleasesOn(obj *unstructured.Unstructured) []Release {
	var found []Release
	for _, e := range parseEntries(obj.GetAnnotations()[api.AnnotationReleases]).sortedByName() {
		found = append(found, Release{
			UID: e.UID, Namespace: e.Namespace, Name: e.Name, Kind: e.Kind, Epoch: e.Epoch, Service: e.Service, CanaryService: e.CanaryService,
			PatchLabels: e.PatchLabels, PatchAnnotations: e.PatchAnnotations, Terms: e.Terms, Further: e.Further,
		})
	}
	return found
}
