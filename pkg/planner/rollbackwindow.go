package planner

import "slices"

// recordRecentRevision records the stable revision as the newest of the revisions that a later release may return to at once.
func (p *planner) recordRecentRevision() {
	window := int(p.seen.Spec.RollbackWindow)
	if window == 0 {
		p.m.RecentRevisions = nil
		return
	}
	for _, set := range p.seen.Workload.Revisions {
		if set.Hash == p.m.StableRevision {
			others := slices.DeleteFunc(slices.Clone(p.m.RecentRevisions), func(r string) bool { return r == set.Revision })
			recent := slices.Insert(others, 0, set.Revision)
			p.m.RecentRevisions = recent[:min(len(recent), window+1)]
		}
	}
}

// inRollbackWindow reports whether the release returns to a version that was stable recently, which needs no steps.
func (p *planner) inRollbackWindow() bool {
	at := slices.Index(p.m.RecentRevisions, p.seen.Workload.Revision)
	return at > 0 && at <= int(p.seen.Spec.RollbackWindow)
}
