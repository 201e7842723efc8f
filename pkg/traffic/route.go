package traffic

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
)

// Plan is what may be done about one release on one gateway object, as it was seen.
type Plan struct {
	live     *unstructured.Unstructured
	rel      Release
	steps    map[int32]Strategy
	run      Script
	on       entries
	original Content
	// shaped: something of this release may be on the object.
	shaped bool
	// lost is why the original is not known; nil when it is.
	lost error
	// neighbours are the other releases of the object.
	neighbours []entry
	// others are objects of kinds that the script may make; made are those of them that it made for this release beside this object, but
	// for those that are being deleted.
	others, children, deletingChildren []*unstructured.Unstructured
}

// rendering is what a step wants of the object, and beside it.
type rendering struct {
	Content
	children []*unstructured.Unstructured
	delete   []script.Reference
	// needsCopies: the step needs copies of policies, and no copy of a policy that is gone.
	needsCopies bool
}

// ObserveRoute compares a gateway object with what the steps of a release want of it. live is nil when the object does not exist. run
// is the script of its kind, nil when there is none; others are all objects in its namespace of the kinds that the script may make. The
// renderings of the Route and those of the Plan are the same.
func ObserveRoute(ref rollout.Ref, live *unstructured.Unstructured, rel Release, steps map[int32]Strategy, run Script, others ...*unstructured.Unstructured) (rollout.Route, *Plan) {
	route := rollout.Route{Object: ref, Steps: map[int32]rollout.Rendering{}}
	if live == nil {
		route.Missing = true
		return route, nil
	}
	p := &Plan{live: live, rel: rel, steps: steps, run: withObject(live, run), others: others}
	for _, o := range childrenOf(live, rel, others) {
		if o.GetDeletionTimestamp() != nil {
			p.deletingChildren = append(p.deletingChildren, o)
			route.DeletingChild = o.GetKind() + " " + o.GetName()
		} else {
			p.children = append(p.children, o)
		}
	}
	last := parseRendered(live.GetAnnotations()[api.AnnotationRendered])
	edited := p.readOriginal(last)
	p.neighbours = p.findNeighbours()
	own, listed := p.on[rel.UID]
	route.Shaped, route.HasChildren = p.shaped || len(p.UnreferencedChildren()) > 0, len(p.ReferencedChildren()) > 0
	route.Content, route.Version = p.contentDigest(), p.versionOf()
	changed := false
	for step, strategy := range steps {
		r, err := p.renderStep(step)
		if err != nil {
			route.Steps[step] = rollout.Rendering{Refused: fmt.Sprintf("%s cannot carry out %s: %s", ref, rel.describeStep(step), err), TimedOut: script.IsLate(err)}
			continue
		}
		digest := r.digest()
		onIt := listed && !edited && last.Desired == digest && own.rendersLike(rel.entryAt(step, strategy)) || p.leavesUnchanged(r)
		applied := onIt && p.childrenUpToDate(r)
		changed = changed || p.childrenEdited(r.children)
		for _, o := range r.children {
			digest += "." + digestOf(childRecordOf(o).Desired)
		}
		route.Steps[step] = rollout.Rendering{Applied: applied, Accepted: applied && isAccepted(live), Digest: digest,
			ChildrenMissing: len(p.missingChildren(r)) > 0, Since: p.referencedSince(r)}
	}
	if edited || changed {
		route.Foreign = route.Content
	}
	if edited || changed || !listed {
		route.ForeignBy = lastManager(live)
	}
	route.Weight = p.canaryWeight(own, listed && !edited)
	return route, p
}

// leavesUnchanged reports whether a rendering leaves the object as its owner has it, and nothing of any release was ever on it: then it is
// not written at all.
func (p *Plan) leavesUnchanged(r rendering) bool {
	return !p.shaped && len(p.on) == 0 && r.digest() == p.original.digest() && r.digest() == ContentDigest(p.live)
}

// contentDigest is a digest of the object and what was made beside it, version what tells their states apart.
func (p *Plan) contentDigest() string {
	all := ContentDigest(p.live)
	for _, o := range p.children {
		all += "." + ContentDigest(o)
	}
	return all
}

func (p *Plan) versionOf() string {
	all := p.live.GetResourceVersion()
	for _, o := range p.children {
		all += "." + o.GetResourceVersion()
	}
	return all
}

// canaryWeight is the share that the release gives the canary as far as the objects say.
func (p *Plan) canaryWeight(own entry, counts bool) rollout.Percent {
	for _, o := range p.UnreferencedChildren() {
		if e, ok := parseEntries(o.GetAnnotations()[api.AnnotationReleases])[p.rel.UID]; ok && e.Weight != nil {
			return *e.Weight
		}
	}
	if counts && own.Weight != nil {
		return *own.Weight
	}
	return 0
}

// readOriginal finds out what the owner wants of the object, and whether somebody changed it after we wrote it.
func (p *Plan) readOriginal(last rendered) (edited bool) {
	annotations := p.live.GetAnnotations()
	p.on = parseEntries(annotations[api.AnnotationReleases]).inheritOrphan(p.rel)
	live := ContentOf(p.live)
	stored, known := parseOriginal(annotations[api.AnnotationOriginalSpec])
	self := p.rel.entryAt(0, Strategy{}) // whose canary is never part of an original
	untouched := last.LastApplied == live.digest()
	_, listed := p.on[p.rel.UID]
	mine := p.marksOn(entries{self.UID: self}, live, shape{Content: live}).foundIn("", live.Spec)
	// A record without releases, or a canary without its release, is what is left when somebody takes our annotations away, or
	// when a restore was cut short.
	recorded := annotations[api.AnnotationOriginalSpec] != ""
	p.shaped = listed || mine && (self.ownService() || !known) || recorded && len(p.on) == 0
	switch {
	case known && untouched:
		p.original = stored
	case known:
		edited = last.LastApplied != ""
		base, err := foldRenderable(stored, p.on, p.run)
		if err != nil {
			p.lost = err
			return edited
		}
		p.original = threeWayMerge(live, stored, base.Content, p.marksOn(p.on.withEntry(self), stored, base))
		if sameSpec(last.LastApplied, live.digest()) {
			p.original.Spec = stored.Spec
		}
	case untouched || p.marksOn(p.on.withEntry(self), live, shape{Content: live}).foundIn("", live.Spec):
		p.lost = &lostError{object: p.live.GetKind() + " " + p.live.GetName(), service: p.rel.CanaryService}
	default:
		edited = last.LastApplied != ""
		p.original = live
	}
	return edited
}

// lostError says that the object carries a rendering of ours whose original nobody knows any more.
type lostError struct{ object, service string }

func (e *lostError) Error() string {
	return fmt.Sprintf("%s still routes to the canary (Service %s), and the original that its annotation %s held or named is gone; apply your own version of it, without the canary",
		e.object, e.service, api.AnnotationOriginalSpec)
}

func (p *Plan) renderStep(step int32) (rendering, error) {
	strategy, ok := p.steps[step]
	if !ok {
		return rendering{}, fmt.Errorf("step %d was not rendered", step)
	}
	if p.lost != nil {
		return rendering{}, p.lost
	}
	own := p.rel.entryAt(step, strategy)
	own.others = p.neighbours
	if err := own.checkConflict(); err != nil {
		return rendering{}, err
	}
	es := p.on.withEntry(own)
	folded, err := foldReleases(p.original, es, p.rel.UID, p.run)
	if err != nil {
		return rendering{}, err
	}
	copies, err := p.policyCopies(own)
	if err != nil {
		return rendering{}, err
	}
	beside, err := p.desiredChildren(folded, copies, own)
	if err != nil {
		return rendering{}, err
	}
	return rendering{folded.Content, beside, folded.delete, own.needsCopies()}, checkSize(p.withAnnotations(folded.Content, es))
}

// withAnnotations puts content and our records on the object; without releases there are none.
func (p *Plan) withAnnotations(content Content, es entries) *unstructured.Unstructured {
	next := content.applyTo(p.live)
	if len(es) == 0 {
		return next
	}
	annotations := orEmpty(next.GetAnnotations())
	annotations[api.AnnotationOriginalSpec] = jsonOf(p.original.asOriginal())
	annotations[api.AnnotationReleases] = jsonOf(es)
	next.SetAnnotations(annotations)
	return next
}

// DesiredObject is the object with the release at a step that was given to [ObserveRoute], nil when the step leaves it as it is, and what must be
// written beside it. The object carries the resourceVersion that was seen. The writer learns from a dry run what the API server keeps of
// it, and writes the result of [StampRendered].
func (p *Plan) DesiredObject(step int32) (*unstructured.Unstructured, Children, error) {
	r, err := p.renderStep(step)
	if err != nil {
		return nil, Children{}, fmt.Errorf("render step %d on %s %s: %w", step, p.live.GetKind(), p.live.GetName(), err)
	}
	beside := p.childChanges(r)
	if p.leavesUnchanged(r) {
		return nil, beside, nil
	}
	return p.withAnnotations(r.Content, p.on.withEntry(p.rel.entryAt(step, p.steps[step]))), beside, nil
}

// RestoredObject is the object without the release; without any release it is what its owner last wanted, and bears none of our
// annotations. It is nil when the release is not on the object. With other releases left it is written like [Plan.DesiredObject].
func (p *Plan) RestoredObject() (*unstructured.Unstructured, error) {
	if p.lost != nil {
		return nil, p.lost
	}
	if !p.shaped {
		return nil, nil
	}
	rest := p.on.withoutEntry(p.rel.UID)
	left, err := foldRenderable(p.original, rest, p.run)
	if err != nil {
		return nil, err
	}
	return p.withAnnotations(left.Content, rest), nil
}

// isAccepted reports whether the gateway took the object as it is. A kind that reports no conditions takes it at once; conditions
// that tell which generation they are about are waited for.
func isAccepted(live *unstructured.Unstructured) bool {
	status, _ := live.Object["status"].(map[string]any)
	all := conditionsIn(status)
	parents, _ := status["parents"].([]any)
	for _, parent := range parents {
		parent, _ := parent.(map[string]any)
		all = append(all, conditionsIn(parent)...)
	}
	for _, c := range all {
		switch c["type"] {
		case "Accepted", "ResolvedRefs", "Programmed", "Valid":
			seen := toFloat(c["observedGeneration"])
			if seen != nil && int64(*seen) < live.GetGeneration() || c["status"] == string(metav1.ConditionFalse) {
				return false
			}
		case "ResourcesAvailable": // of APISIX, which tells the generation of the last change of this status, not of the last look
			if c["status"] == string(metav1.ConditionFalse) {
				return false
			}
		}
	}
	return true
}

func conditionsIn(in map[string]any) []map[string]any {
	var found []map[string]any
	list, _ := in["conditions"].([]any)
	for _, c := range list {
		if c, ok := c.(map[string]any); ok {
			found = append(found, c)
		}
	}
	return found
}

// lastManager is the field manager other than us that changed the object last.
func lastManager(obj *unstructured.Unstructured) string {
	var name string
	var at time.Time
	for _, f := range obj.GetManagedFields() {
		if f.Manager == api.FieldManager || f.Subresource != "" {
			continue
		}
		if f.Time == nil && name == "" || f.Time != nil && !f.Time.Time.Before(at) {
			name = f.Manager
			if f.Time != nil {
				at = f.Time.Time
			}
		}
	}
	return name
}
