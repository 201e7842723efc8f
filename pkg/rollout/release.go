package rollout

import "sluice.dev/sluice/pkg/api"

// ReleaseID is what a release is called: as its owner says, else by its revision.
func ReleaseID(owners string, m api.SluiceStatus) string {
	switch {
	case owners != "":
		return owners
	case m.RollbackReplicas > 0:
		return RollbackID("", m.CanaryRevision)
	}
	return m.CanaryRevision
}

// RollbackID is what a rollback to a revision is called.
func RollbackID(owners, revision string) string {
	if owners != "" {
		return owners
	}
	return rollbackPrefix + revision
}

// rollbackPrefix begins the id of such a release, where its owner gave it none.
const rollbackPrefix = "rollback-"
