package planner

import (
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// strategyStatus returns the part of the status for the release: canaryStatus or blueGreenStatus. It moves the values of the other part there,
// because a user may change the style of an idle Rollout. For an unreadable Rollout, it keeps the existing part.
func strategyStatus(s *api.RolloutStatus, style rollout.Style) *api.CommonStatus {
	blueGreen := style == rollout.StyleBlueGreen || style == "" && s.BlueGreenStatus != nil
	switch {
	case blueGreen && s.BlueGreenStatus == nil:
		s.BlueGreenStatus = &api.BlueGreenStatus{}
		if c := s.CanaryStatus; c != nil {
			s.BlueGreenStatus.CommonStatus, s.BlueGreenStatus.UpdatedRevision = c.CommonStatus, c.CanaryRevision
		}
	case !blueGreen && s.CanaryStatus == nil:
		s.CanaryStatus = &api.CanaryStatus{}
		if c := s.BlueGreenStatus; c != nil {
			s.CanaryStatus.CommonStatus, s.CanaryStatus.CanaryRevision = c.CommonStatus, c.UpdatedRevision
		}
	}
	if blueGreen {
		s.CanaryStatus = nil
	} else {
		s.BlueGreenStatus = nil
	}
	return s.Common()
}

// strategyStatusNames returns the name of that part of a status, and the name of the field that [rollout.StatusRevision] returns.
func strategyStatusNames(s *api.RolloutStatus) (part, revision string) {
	if s.BlueGreenStatus != nil {
		return "blueGreenStatus", "updatedRevision"
	}
	return "canaryStatus", "canaryRevision"
}

// projectPods shows the pods of the new version.
func (p *planner) projectPods() {
	if b := p.status.BlueGreenStatus; b != nil {
		b.UpdatedReplicas, b.UpdatedReadyReplicas = p.newPods()
		return
	}
	c := p.status.CanaryStatus
	c.CanaryReplicas, c.CanaryReadyReplicas = p.newPods()
}
