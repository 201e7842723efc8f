package planner

import (
	"fmt"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// How long the same foreign content on a route counts as one fight, how often it may come back, and how long a contested
// object is left alone.
const (
	contestWindow = time.Minute
	contestLimit  = 3
	contestPause  = time.Minute
)

// contested counts how often somebody else's content came back on a route, and reports whether to leave the object alone:
// two writers in a circle help nobody, and what the other one wrote is what served before the release.
func (p *planner) contested(route rollout.Route) bool {
	content := route.Foreign
	if content == "" && !route.Ours {
		content = route.Content
	}
	if content == "" {
		return false
	}
	c, known := p.contest(route, content)
	counted := known && route.Version != "" && route.Version == c.Seen
	c.Seen = route.Version
	switch {
	case !known && route.Foreign == "":
		return false // the owner's content, found by the release for the first time
	case c.Until != nil && p.now.Before(c.Until.Time):
		p.holdContested(route, c.Until.Time)
		return true
	case c.Until != nil:
		// The object is tried once more; the next write of the other is one too many.
		c.Since, c.Until, c.Count = microTime(p.now), nil, contestLimit-1
		return false
	case counted:
		return false // one write is looked at many times: after a conflict, a crash, or a refusal
	case p.now.Sub(c.Since.Time) > contestWindow:
		c.Since, c.Count = microTime(p.now), 0
	}
	c.Count++
	if c.Count < contestLimit {
		return false
	}
	until := microTime(p.now.Add(contestPause))
	c.Until = &until
	p.holdContested(route, until.Time)
	return true
}

// contest is the account of a route's foreign content; known reports whether there was one.
func (p *planner) contest(route rollout.Route, content string) (c *api.Contest, known bool) {
	for i := range p.m.Contests {
		c = &p.m.Contests[i]
		if c.Object == route.Object.String() {
			known = c.Digest == content
			if !known {
				*c = api.Contest{Object: c.Object, Digest: content, Since: microTime(p.now)}
			}
			c.Manager = route.ForeignBy
			return c, known
		}
	}
	p.m.Contests = append(p.m.Contests, api.Contest{
		Object: route.Object.String(), Digest: content, Manager: route.ForeignBy, Since: microTime(p.now),
	})
	return &p.m.Contests[len(p.m.Contests)-1], false
}

func (p *planner) holdContested(route rollout.Route, until time.Time) {
	p.waitUntil(until, "")
	p.holdFor(rollout.Problem{Reason: rollout.HoldContested, Message: fmt.Sprintf(
		"%s keeps being written by %q with other content, so its routing is left as that writer wants it; "+
			"let that writer leave spec alone during releases (Argo CD: ignoreDifferences with jsonPointers [/spec]; Flux: kustomize.toolkit.fluxcd.io/ssa: IfNotPresent)",
		route.Object, route.ForeignBy)})
}
