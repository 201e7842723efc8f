package planner

import "slices"

// recordRecentRevision notes the stable revision as the newest of those that a later release may go back to at once.
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

// inRollbackWindow reports whether the release goes back to a version that served lately, which needs no steps.
func (p *planner) inRollbackWindow() bool {
	at := slices.Index(p.m.RecentRevisions, p.seen.Workload.Revision)
	return at > 0 && at <= int(p.seen.Spec.RollbackWindow)
}
