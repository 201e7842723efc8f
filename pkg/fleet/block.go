package fleet

import (
	"slices"

	"sluice.dev/sluice/pkg/api"
)

// mergeBlock takes in that a version was withdrawn or unblocked.
func (p *planner) mergeBlock(block api.FleetBlock) {
	p.status.Blocked = api.MergeFleetBlock(p.status.Blocked, block)
}

// templateBlocked reports whether one of the names of a version is blocked.
func (p *planner) templateBlocked(v api.FleetVersion) bool {
	return slices.ContainsFunc(v.Keys(), p.blocked)
}

// blockEpoch returns the epoch of the entry of a version, 0 without one.
func (p *planner) blockEpoch(key string) int64 {
	for _, b := range p.status.Blocked {
		if b.Version == key {
			return b.Epoch
		}
	}
	return 0
}

// blocked reports whether no cluster may get a version.
func (p *planner) blocked(key string) bool {
	return slices.ContainsFunc(p.status.Blocked, func(b api.FleetBlock) bool { return b.Version == key && !b.Unblocked })
}
