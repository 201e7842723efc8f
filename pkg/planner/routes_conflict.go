package planner

import (
	"fmt"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// The time for which the same foreign content on a route counts as one conflict, the number of times that it may come back, and the time for which
// the executor then leaves the object alone.
const (
	conflictWindow = time.Minute
	conflictLimit  = 3
	conflictPause  = time.Minute
)

// routeInConflict counts how often another client's content came back on a route, and reports whether to leave the object alone. Two writers in a
// loop help no user, and the other client's content served before the release.
func (p *planner) routeInConflict(route rollout.Route) bool {
	content := route.Foreign
	if content == "" && !route.Shaped {
		content = route.Content
	}
	if content == "" {
		return false
	}
	c, known := p.conflictRecord(route, content)
	counted := known && route.Version != "" && route.Version == c.Seen
	c.Seen = route.Version
	switch {
	case !known && route.Foreign == "":
		return false // the owner's content, which the release finds for the first time
	case c.Until != nil && p.now.Before(c.Until.Time):
		p.holdRouteConflict(route, c.Until.Time)
		return true
	case c.Until != nil:
		// The executor tries the object once more; the next foreign write exceeds the limit.
		c.Since, c.Until, c.Count = microTime(p.now), nil, conflictLimit-1
		return false
	case counted:
		return false // the planner may see one write many times: after a conflict, a crash or a refusal
	case p.now.Sub(c.Since.Time) > conflictWindow:
		c.Since, c.Count = microTime(p.now), 0
	}
	c.Count++
	if c.Count < conflictLimit {
		return false
	}
	until := microTime(p.now.Add(conflictPause))
	c.Until = &until
	p.holdRouteConflict(route, until.Time)
	return true
}

// conflictRecord returns the record of a route's foreign content; known reports whether it existed.
func (p *planner) conflictRecord(route rollout.Route, content string) (c *api.Contest, known bool) {
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

func (p *planner) holdRouteConflict(route rollout.Route, until time.Time) {
	p.waitUntil(until, "")
	p.holdFor(rollout.Problem{Reason: rollout.ReasonRouteConflict, Message: fmt.Sprintf(
		"%s keeps being written by %q with other content, so its routing is left as that writer wants it; "+
			"let that writer leave spec alone during releases (Argo CD: ignoreDifferences with jsonPointers [/spec]; Flux: kustomize.toolkit.fluxcd.io/ssa: IfNotPresent)",
		route.Object, route.ForeignBy)})
}
