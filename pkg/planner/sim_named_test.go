package planner

import (
	"sluice.dev/sluice/pkg/rollout"
	"time"
)

// named is the object that the first gateway object names in the first step of such a model. It must exist for a while before, and stays for a while
// afterwards.
type named struct {
	there bool
	since int
}

// seeNamed shows the object that a gateway object will name.
func (w *world) seeNamed(r *rollout.Route, i int) {
	if !w.model.names || i > 0 {
		return
	}
	r.HasChildren = w.named.there
	for n, rendering := range r.Steps {
		if n != 1 {
			continue
		}
		if rendering.ChildrenMissing = !w.named.there; rendering.ChildrenMissing {
			rendering.Applied, rendering.Accepted = false, false
		} else {
			rendering.Since = start.Add(time.Duration(w.named.since) * time.Second)
		}
		r.Steps[n] = rendering
	}
}

// makeNamed creates or deletes the named object.
func (w *world) makeNamed(there bool) { w.named = named{there, w.now} }

// mislaid lists deletions of such objects by users.
func (w *world) mislaid() []move {
	if !w.named.there {
		return nil
	}
	return []move{{"what a gateway object names is deleted", func(w *world) { w.named.there = false; w.touched(onRoute0) }}}
}

func (w *world) appendNamed(b []byte) []byte {
	return append(appendBools(b, w.named.there), byte(min(w.now-w.named.since, graceOfModels)))
}

// names checks a write of a gateway object that names another object.
func (c *checks) names(w *world, a rollout.ApplyRoute) {
	if w.model.names && w.routeIndex(a.Object) == 0 && a.Step == 1 {
		c.that(w.named.there && w.now-w.named.since >= graceOfModels, "NothingNamedBeforeItIsKnown", "%s: what it names is there (%t) since %d s", a, w.named.there, w.now-w.named.since)
	}
}

func (c *checks) cleared(w *world, a rollout.ClearRoute) {
	c.that(!w.routedToCanary(), "NothingNamedBeforeItIsKnown", "%s, while it is routed by", a)
	c.that(w.now-w.left >= graceOfModels, "GraceSpentBeforeRemoval", "%s %d s after its traffic left", a, w.now-w.left)
}
