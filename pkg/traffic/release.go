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

// Release is the part of a release that concerns gateway objects.
type Release struct {
	// UID, Namespace and Name identify the Rollout, or an object of another Kind that routes.
	UID, Namespace, Name string
	// Kind is empty for a Rollout.
	Kind string
	// Epoch counts the releases of the Rollout.
	Epoch int64
	// CanaryService equals Service when the canary has no Service of its own.
	Service, CanaryService string
	Terms
	// Further are the other Services through which the same object routes to the workload.
	Further []Served
	// PatchLabels and PatchAnnotations are the labels and annotations that the canary's pods have in addition to the template.
	PatchLabels, PatchAnnotations map[string]string
	// Carries are the stable Services whose policies the release copies for this object. Subsets are the subsets of these Services that other gateway
	// objects of the release lead to.
	Carries []string
	Subsets map[string][]string
}

// Terms are the settings of a release for one Service, except its names.
type Terms struct {
	// Rules are the rules of the object that may be changed; nil for all that lead to the Service.
	Rules []string `json:"rules,omitempty"`
	// Tag marks the requests that are for canaries; nil if no tag is set.
	Tag *api.TrafficTag `json:"tag,omitempty"`
	// Ports are the ports of the Service, and Revisions are the revisions of its pods. Both are nil unless the script asks for them.
	Ports     []script.Port     `json:"ports,omitempty"`
	Revisions *script.Revisions `json:"revisions,omitempty"`
}

// Served is one Service of a release on an object.
type Served struct {
	Service       string `json:"service"`
	CanaryService string `json:"canaryService"`
	Terms
}

// Strategy is the routing that one step asks for.
type Strategy struct {
	// Weight is the canary's share; nil if the step sets none.
	Weight                *rollout.Percent      `json:"weight,omitempty"`
	Matches               []api.HTTPRouteMatch  `json:"matches,omitempty"`
	RequestHeaderModifier *api.HTTPHeaderFilter `json:"requestHeaderModifier,omitempty"`
	// Mirror is the share of the requests that are copied to the canary; nil for none.
	Mirror *rollout.Percent `json:"mirror,omitempty"`
}

// StrategyOf returns the part of a step that a gateway carries out.
func StrategyOf(step rollout.Step) Strategy {
	return Strategy{Weight: step.Weight, Matches: step.Matches, RequestHeaderModifier: step.RequestHeaderModifier, Mirror: step.Mirror}
}

// routesToCanary reports whether the strategy sends any request to the canary, or a copy of one.
func (s Strategy) routesToCanary() bool {
	return s.Weight != nil && *s.Weight > 0 || len(s.Matches) > 0 || s.Mirror != nil
}

// takesAllTraffic reports whether the canary gets all traffic, so that a script may remove the stable Service from the object.
func (s Strategy) takesAllTraffic() bool { return s.Weight != nil && *s.Weight >= 100 }

// describeStep names the step in messages to users.
func (r Release) describeStep(n int32) string {
	switch {
	case r.Kind == "" && n < 0:
		return fmt.Sprintf("a share of %d%%", -n)
	case r.Kind == "":
		return fmt.Sprintf("step %d", n)
	}
	return "its strategy"
}

// entry is one release on an object, with all that any executor needs to render it again.
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

	services []script.Service // all Services of the release; set in the result of [entry.serviceEntries]
	others   []entry          // the other releases of the object and its children; set in the entry that is rendered
}

func (r Release) entryAt(step int32, s Strategy) entry {
	return entry{
		UID: r.UID, Namespace: r.Namespace, Name: r.Name, Kind: r.Kind, Service: r.Service, CanaryService: r.CanaryService,
		Epoch: r.Epoch, Step: step, PatchLabels: orNil(r.PatchLabels), PatchAnnotations: orNil(r.PatchAnnotations), Terms: r.Terms, Further: r.Further, Strategy: s,
	}
}

// String names the Rollout or the other object that routes, in messages to users.
func (e entry) String() string {
	if e.Kind == "" {
		return "the release of Rollout " + e.Name
	}
	return e.Kind + " " + e.Name
}

// serviceEntries returns one entry for each Service of a release. Each entry lists all of these Services.
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

// parseEntries reads the annotation. It drops an entry that it cannot read: the executor of that release writes its entry again.
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

// inheritOrphan gives a release the entry of an earlier Rollout with the same name that was removed by force. A name is unique in its namespace, so no
// other release will ever remove that entry.
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

// sortedByName returns the releases in the order in which they are folded: by name, so that the order does not depend on their start.
func (es entries) sortedByName() []entry {
	return slices.SortedFunc(maps.Values(es), func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
}

// serviceEntries returns one entry for each release and Service, in the order in which they are folded.
func (es entries) serviceEntries() []entry {
	var all []entry
	for _, e := range es.sortedByName() {
		all = append(all, e.serviceEntries()...)
	}
	return all
}

// ReleasesOn lists the releases on an object in the order in which they shape it. A caller that finds a release without a Rollout removes it with
// [ObserveRoute] and [Plan.RestoredObject].
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
