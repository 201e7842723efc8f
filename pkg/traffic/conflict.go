package traffic

import (
	"fmt"

	"sluice.dev/sluice/pkg/api"
)

// This file is about releases that would share the traffic of one Service, each by steps of its own: whatever became of it, one of them would
// not be what its steps say. The first that is on an object has it.

// findNeighbours lists the releases on the object but for this one, and those that made something beside it that is not on its way out.
func (p *Plan) findNeighbours() []entry {
	all := p.on
	for _, o := range p.others {
		if o.GetDeletionTimestamp() == nil && isChildOf(o, p.live) {
			for _, e := range parseEntries(o.GetAnnotations()[api.AnnotationReleases]).inheritOrphan(p.rel) {
				all = all.withEntry(e)
			}
		}
	}
	return all.withoutEntry(p.rel.UID).sortedByName()
}

// checkConflict says why a release must not be on an object with others of which one has a Service of it. One of another kind may: a Rollout can be
// routed by a TrafficRouting as well.
func (e entry) checkConflict() error {
	for _, other := range e.others {
		if other.Namespace != e.Namespace || other.Kind != e.Kind {
			continue
		}
		for _, theirs := range other.serviceEntries() {
			for _, ours := range e.serviceEntries() {
				if ours.Service == theirs.Service {
					return fmt.Errorf("%s shares the traffic of Service %s by this object already, and it can be shared by one release at a time; "+
						"wait until that one has ended, or give each its own Service (a Rollout that was removed by force: create it again, and delete it)", other, ours.Service)
				}
			}
		}
	}
	return nil
}
