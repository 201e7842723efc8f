package fleet

import (
	"time"

	"sluice.dev/sluice/pkg/api"
)

// phaseOfHold is the phase of a cluster that has stopped at a hold. At the hold of its wave it soaks.
func (p *planner) phaseOfHold(c *cluster) (api.FleetTargetPhase, string) {
	s := &c.status
	if permit := c.target.Permit; c.wave == 0 || permit.HoldAt == 0 || permit.Verb != api.FleetVerbRelease {
		return api.FleetTargetAtHold, ""
	}
	if stage := p.status.Waves[c.wave-1].Stage; stage != api.FleetWaveToHold && stage != api.FleetWaveHoldSoak { // it has soaked
		return api.FleetTargetAtHold, ""
	}
	if s.HeldSince == nil {
		s.HeldSince = new(p.microNow())
	}
	soak := p.spec.Waves[c.wave-1].HoldSoak
	c.soaked = p.soaksSkipped(c) || p.soak(c, soak)
	switch {
	case c.soaked:
		return api.FleetTargetAtHold, ""
	case p.soakExpired(s.HeldSince.Time, soak):
		return api.FleetTargetFailed, reasonUnhealthy
	case c.report.Unhealthy:
		return api.FleetTargetAtHold, reasonUnhealthy
	}
	return api.FleetTargetAtHold, ""
}

// phaseOfSoak is the phase of a cluster that has completed its release.
func (p *planner) phaseOfSoak(c *cluster) (api.FleetTargetPhase, string) {
	s := &c.status
	c.unhealthy = c.report.Unhealthy
	if s.CompletedAt == nil {
		s.CompletedAt = new(p.microNow())
	}
	soak := p.soakOf(c)
	switch {
	case s.Phase == api.FleetTargetCompleted && c.unhealthy:
		return api.FleetTargetCompleted, reasonUnhealthy
	case s.Phase == api.FleetTargetCompleted, soak == 0 && !c.unhealthy, p.soak(c, soak):
		return api.FleetTargetCompleted, ""
	}
	reachable := p.reachable(c)
	switch {
	case !reachable && (p.cutOff || p.starting):
		return api.FleetTargetSoaking, reasonUnreachable
	case p.soakExpired(s.CompletedAt.Time, soak):
		return api.FleetTargetFailed, reasonUnhealthy
	case !reachable:
		return api.FleetTargetSoaking, reasonUnreachable
	case c.unhealthy:
		return api.FleetTargetSoaking, reasonUnhealthy
	}
	return api.FleetTargetSoaking, ""
}

// soak counts the time in which the hub sees a cluster healthy. It reports whether that is as long as wanted, and the cluster is healthy now.
func (p *planner) soak(c *cluster, wanted time.Duration) bool {
	s, m := &c.status, c.member
	if m.LastSeen.IsZero() && p.starting {
		return false // the executor does not know whether another one hears it
	}
	if !p.reachable(c) || c.report.Unhealthy {
		p.stopSoak(c)
		return false
	}
	if s.SoakingSince != nil && s.SoakingSince.Time.Before(m.HeardFrom) {
		s.Soaked, s.SoakingSince = stopClock(s.Soaked, s.SoakingSince, m.SilentFrom)
	}
	if wanted <= s.Soaked.Duration {
		return true
	}
	if s.SoakingSince == nil {
		s.SoakingSince = new(p.microNow())
	}
	return p.elapsed(s.SoakingSince.Time, wanted-s.Soaked.Duration)
}

// stopSoak ends a stretch of health: now, or when the hub has heard the cluster last.
func (p *planner) stopSoak(c *cluster) {
	until := p.now
	if c.member.silent(p.now) {
		until = c.member.LastSeen
	}
	c.status.Soaked, c.status.SoakingSince = stopClock(c.status.Soaked, c.status.SoakingSince, until)
}

// soakExpired reports whether a cluster has taken too long to soak.
func (p *planner) soakExpired(since time.Time, soak time.Duration) bool {
	return p.elapsed(since, soakLimit*max(soak, UnreachableAfter))
}

// soaksSkipped reports whether a person has told the wave of a cluster to pass without a soak.
func (p *planner) soaksSkipped(c *cluster) bool {
	return p.status.SkipSoak && c.wave <= p.status.Promoted
}

// soakOf returns how long a cluster soaks after its release.
func (p *planner) soakOf(c *cluster) time.Duration {
	if c.wave == 0 || p.soaksSkipped(c) {
		return 0
	}
	return p.spec.Waves[c.wave-1].Soak
}
