package rollout

import "sluice.dev/sluice/pkg/api"

// ReleaseID returns the id of a release: the owner's id, or else one from its revision.
func ReleaseID(owners string, m api.SluiceStatus) string {
	switch {
	case owners != "":
		return owners
	case m.RollbackReplicas > 0:
		return RollbackID("", m.CanaryRevision)
	}
	return m.CanaryRevision
}

// RollbackID returns the id of a rollback to a revision.
func RollbackID(owners, revision string) string {
	if owners != "" {
		return owners
	}
	return rollbackPrefix + revision
}

// rollbackPrefix is the prefix of the id of a rollback without an owner's id.
const rollbackPrefix = "rollback-"
