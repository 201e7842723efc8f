package rollout

import "sluice.dev/sluice/pkg/api"

// Pause is one pause of one release of one Rollout. No two are equal. Its fields are stored under these names with approvals that wait for an answer.
type Pause struct {
	UID      string
	Epoch    int64
	PauseSeq int64
	Step     int32
}

// NewPause is the pause of a release at a step.
func NewPause(uid string, m api.SluiceStatus) Pause {
	return Pause{UID: uid, Epoch: m.Epoch, PauseSeq: m.PauseSeq, Step: m.Step}
}
