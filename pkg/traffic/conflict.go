package traffic

import (
	"fmt"

	"sluice.dev/sluice/pkg/api"
)

// This file is about releases that would share the traffic of one Service, each with its own steps. Any mix of the two would break the steps of one of
// them. The first release on an object keeps it.

// findNeighbours lists the other releases of the object, and those that own a child of it which is not being deleted.
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

// checkConflict returns the reason why a release must not share an object with other releases: one of them routes the same Service. Releases of different
// kinds may share it: a TrafficRouting can route the traffic of a Rollout as well.
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
