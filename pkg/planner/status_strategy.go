package planner

import (
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// strategyStatus is where the status shows the release: in canaryStatus, or in blueGreenStatus. The other one goes, and what it showed is taken
// over: a Rollout at rest may change its style. One that cannot be read shows itself where it did before.
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

// strategyStatusNames is the name of that part of a status, and of the field in it that [rollout.StatusRevision] is.
func strategyStatusNames(s *api.RolloutStatus) (part, revision string) {
	if s.BlueGreenStatus != nil {
		return "blueGreenStatus", "updatedRevision"
	}
	return "canaryStatus", "canaryRevision"
}

// projectPods shows how far the new version has come.
func (p *planner) projectPods() {
	if b := p.status.BlueGreenStatus; b != nil {
		b.UpdatedReplicas, b.UpdatedReadyReplicas = p.newPods()
		return
	}
	c := p.status.CanaryStatus
	c.CanaryReplicas, c.CanaryReadyReplicas = p.newPods()
}
