package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	"sluice.dev/sluice/pkg/api"
)

// given is a fleet in a test of one decision. The executor commits and writes at once, and each member is heard.
type given struct {
	Seen
	now time.Time
}

// aFleet returns a fleet in which n clusters hold version 2.
func aFleet(t testing.TB, n int, waves ...api.FleetWave) *given {
	t.Helper()
	g := &given{now: start, Seen: Seen{
		Namespace: "shop", Name: "checkout", UID: "u", Delivery: DeliveryExternal, Release: api.FleetRelease{Version: "v2"}, Spec: demoSpec(t, nil, waves...),
		Members: map[string]Member{}, Targets: map[string]Target{}, Reports: map[string]api.FleetReport{}, Started: start.Add(-time.Hour),
	}}
	for i := range n {
		g.Members[memberName(i)] = Member{Labels: labels.Set{"n": fmt.Sprint(i)}}
		g.report(memberName(i), api.FleetReport{State: api.FleetReportHeld, CanGoBack: true})
	}
	return g
}

// report sets the report of a cluster. It holds or runs version 2, and version 1 is stable, if the report says nothing else.
func (g *given) report(name string, r api.FleetReport) *given {
	if r.Template.Version == "" {
		r.Template = api.FleetVersion{Version: "v2", Revision: "h2"}
	}
	if r.Stable.Version == "" {
		r.Stable = api.FleetVersion{Version: "v1", Revision: "h1"}
	}
	r.CanGoBack = true
	g.Reports[name] = r
	return g
}

// answer sets the answer of a cluster to its permit.
func (g *given) answer(state api.FleetReportState, reason string, names ...string) *given {
	for _, name := range names {
		permit := g.Targets[name].Permit
		r := api.FleetReport{Epoch: permit.Epoch, Seq: permit.Seq, State: state, Reason: reason}
		if state == api.FleetReportCompleted && permit.Verb == api.FleetVerbRelease {
			r.Stable = api.FleetVersion{Version: "v2", Revision: "h2"}
		}
		g.report(name, r)
	}
	return g
}

// amend changes the reports of clusters.
func (g *given) amend(change func(*api.FleetReport), names ...string) *given {
	for _, name := range names {
		r := g.Reports[name]
		change(&r)
		g.Reports[name] = r
	}
	return g
}

// ill sets whether the clusters are unhealthy in their reports.
func (g *given) ill(unhealthy bool, names ...string) *given {
	return g.amend(func(r *api.FleetReport) { r.Unhealthy = unhealthy }, names...)
}

func cannotGoBack(r *api.FleetReport) { r.CanGoBack = false }

// with changes a fleet.
func (g *given) with(change func(*given)) *given {
	change(g)
	return g
}

// silence cuts clusters off from now on.
func (g *given) silence(names ...string) *given {
	for _, name := range names {
		m := g.Members[name]
		m.LastSeen = g.now
		g.Members[name] = m
	}
	return g
}

// plan runs the executor until it has nothing more to write.
func (g *given) plan(silent ...string) *given {
	for range 50 {
		for name, m := range g.Members {
			if !slices.Contains(silent, name) {
				m.LastSeen = g.now
				g.Members[name] = m
			}
		}
		d := Plan(g.Seen, g.now)
		if sameStatus(d.Status, g.Status) && len(d.Targets) == 0 {
			if later := Plan(g.Seen, g.now.Add(time.Microsecond)); !sameStatus(later.Status, g.Status) || len(later.Targets) > 0 {
				panic("the executor would write without end: " + cmp.Diff(g.Status, later.Status))
			}
			return g
		}
		g.Status = d.Status
		for name, target := range d.Targets {
			g.Targets[name] = target
		}
	}
	panic("the executor does not come to rest")
}

// claims adds a block to each report.
func (g *given) claims(block api.FleetBlock) *given {
	for name, r := range g.Reports {
		r.Blocked = append(slices.Clone(r.Blocked), block)
		g.Reports[name] = r
	}
	return g
}

func (g *given) after(d time.Duration) *given {
	g.now = g.now.Add(d)
	return g
}

func (g *given) command(c api.FleetCommand) *given {
	c.Epoch, c.Actor = g.Status.Epoch, "kim"
	if c.PauseSeq == 0 {
		c.PauseSeq = g.Status.PauseSeq
	}
	g.Status.Command = &c
	return g
}

// phases describes each cluster of the release by its phase.
func (g *given) phases() string {
	var list []string
	for _, name := range sortedNames(g.Targets) {
		s := g.Targets[name].Status
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s", name, s.Phase, s.Reason)))
	}
	return strings.Join(list, ", ")
}

func (g *given) summary() string {
	return fmt.Sprintf("%s %s; %s", g.Status.Phase, g.Status.Reason, g.phases())
}

func everyone() api.FleetWave { return api.FleetWave{MaxConcurrency: number(10)} }
