package fleet

import (
	"slices"

	"sluice.dev/sluice/pkg/api"
)

// mergeBlock takes in that a version was withdrawn or unblocked. The entry with the highest epoch counts.
func (p *planner) mergeBlock(block api.FleetBlock) {
	i := slices.IndexFunc(p.status.Blocked, func(b api.FleetBlock) bool { return b.Version == block.Version })
	switch {
	case i >= 0 && (p.status.Blocked[i].Epoch > block.Epoch || p.status.Blocked[i].Epoch == block.Epoch && block.Unblocked):
		return
	case i >= 0 && p.status.Blocked[i] == block:
		return
	case i >= 0:
		p.status.Blocked = slices.Delete(p.status.Blocked, i, i+1)
	}
	p.status.Blocked = latest(append(p.status.Blocked, block), api.MaxFleetBlocks)
}

// templateBlocked reports whether one of the names of a version is blocked.
func (p *planner) templateBlocked(v api.FleetVersion) bool {
	return slices.ContainsFunc(versionKeys(v), p.blocked)
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
