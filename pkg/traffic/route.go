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

// Plan holds an observed gateway object and the possible writes of one release on it.
type Plan struct {
	live     *unstructured.Unstructured
	rel      Release
	steps    map[int32]Strategy
	run      Script
	on       entries
	original Content
	// shaped says that the object may carry changes of this release.
	shaped bool
	// lost is the reason why the original is unknown; nil if it is known.
	lost error
	// neighbours are the other releases of the object.
	neighbours []entry
	// others are objects of the kinds that the script may create. children are those that it created for this release and this object. deletingChildren
	// are such objects that are being deleted.
	others, children, deletingChildren []*unstructured.Unstructured
}

// rendering is the desired content of the object at a step, and its desired children.
type rendering struct {
	Content
	children []*unstructured.Unstructured
	delete   []script.Reference
	// needsCopies says that the step needs copies of policies, and must drop copies whose policy is gone.
	needsCopies bool
}

// ObserveRoute compares a gateway object with the desired objects of the steps of a release. live is nil if the object does not exist. run is the script
// of its kind; nil without a script. others are all objects in its namespace of the kinds that the script may create. The Route and the Plan have the same
// renderings.
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

// leavesUnchanged reports whether a rendering equals the owner's object, and no release has ever changed the object. The executor then does not write it.
func (p *Plan) leavesUnchanged(r rendering) bool {
	return !p.shaped && len(p.on) == 0 && r.digest() == p.original.digest() && r.digest() == ContentDigest(p.live)
}

// contentDigest returns a digest of the object and its children. Equal digests mean equal content.
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

// canaryWeight returns the share of the canary according to the objects in the cluster.
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

// readOriginal finds the owner's content of the object, and reports whether another client changed it after the last write of a release.
func (p *Plan) readOriginal(last rendered) (edited bool) {
	annotations := p.live.GetAnnotations()
	p.on = parseEntries(annotations[api.AnnotationReleases]).inheritOrphan(p.rel)
	live := ContentOf(p.live)
	stored, known := parseOriginal(annotations[api.AnnotationOriginalSpec])
	self := p.rel.entryAt(0, Strategy{}) // its canary is never part of an original
	untouched := last.LastApplied == live.digest()
	_, listed := p.on[p.rel.UID]
	mine := p.marksOn(entries{self.UID: self}, live, shape{Content: live}).foundIn("", live.Spec)
	// A record without releases, or a canary without its release, has two causes: a client removed our annotations, or an executor stopped in the middle
	// of a restore.
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

// lostError says that the object carries a rendering of a release, and its original is lost.
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

// withAnnotations puts content and our records on the object; without releases there are no records.
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

// DesiredObject returns the object with the release at a step that was given to [ObserveRoute], and the changes of its children. The object is nil if the
// step leaves it unchanged. It carries the resourceVersion that was observed. The executor sends a dry run to learn the content that the API server keeps,
// and then writes the result of [StampRendered].
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

// RestoredObject returns the object without the release. Without other releases, it is the object that its owner last wanted, with none of our
// annotations. It is nil if the release is not on the object. With other releases, the executor writes it like [Plan.DesiredObject].
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

// isAccepted reports whether the gateway accepted the current generation of the object. A kind that reports no conditions accepts at once. Conditions with
// an observed generation must be about the current one.
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
		case "ResourcesAvailable": // of APISIX; its generation is the one of the last change of this status, not of the last reconcile
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

// lastManager returns the field manager other than Sluice that changed the object last.
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
