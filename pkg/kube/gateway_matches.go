package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/traffic"
)

// dropMatches finds the matches of each step that a gateway object leaves out. The gateway objects of one Service may have
// different capabilities. As in OpenKruise, each of them takes the matches that it can express: of a header and a path,
// an Ingress takes the header. It leaves out a match only if another object of the Service expresses it, and never all
// matches. Requests that only a dropped match selects stay with the stable version.
func (s *Snapshot) dropMatches() {
	for _, g := range s.gateways {
		g.keptMatches = nil
		for n, step := range s.spec.Steps {
			if len(step.Matches) < 2 || g.referenced {
				continue
			}
			matches := traffic.MatchValues(step.Matches)
			kept := g.capabilities.ChooseMatches(matches)
			if len(kept) > 0 && len(kept) < len(matches) && s.othersExpress(g, matches, kept) {
				if g.keptMatches == nil {
					g.keptMatches = map[int32][]int{}
				}
				g.keptMatches[int32(n+1)] = kept
			}
		}
	}
}

// othersExpress reports whether one other gateway object of a Service of g expresses all matches that g does not keep.
func (s *Snapshot) othersExpress(g *gateway, matches []any, kept []int) bool {
	return slices.ContainsFunc(s.gateways, func(other *gateway) bool {
		if other == g || other.referenced || !s.shareService(g, other) {
			return false
		}
		expressed := other.capabilities.ChooseMatches(matches)
		for i := range matches {
			if !slices.Contains(kept, i) && !slices.Contains(expressed, i) {
				return false
			}
		}
		return true
	})
}

// shareService reports whether an entry of the routing names both gateway objects.
func (s *Snapshot) shareService(a, b *gateway) bool {
	return slices.ContainsFunc(s.spec.Routing, func(routing rollout.Routing) bool {
		return slices.Contains(routing.Objects, a.ref) && slices.Contains(routing.Objects, b.ref)
	})
}

// withoutDroppedMatches returns the strategies of steps without the matches that the gateway object leaves out. A step
// that hands traffic back has a negative number, and the matches of the current step.
func (g *gateway) withoutDroppedMatches(steps map[int32]traffic.Strategy, current int32) map[int32]traffic.Strategy {
	if len(g.keptMatches) == 0 {
		return steps
	}
	kept := maps.Clone(steps)
	for n, strategy := range steps {
		from := n
		if n < 0 {
			from = current
		}
		indexes, drops := g.keptMatches[from]
		if !drops {
			continue
		}
		all := strategy.Matches
		strategy.Matches = nil
		for _, i := range indexes {
			strategy.Matches = append(strategy.Matches, all[i])
		}
		kept[n] = strategy
	}
	return kept
}

// droppedMatchProblem describes the matches that gateway objects leave out, nil if there are none.
func (s *Snapshot) droppedMatchProblem() *rollout.Problem {
	var told []string
	for _, g := range s.gateways {
		for _, n := range slices.Sorted(maps.Keys(g.keptMatches)) {
			var dropped []string
			for i := range s.spec.Steps[n-1].Matches {
				if !slices.Contains(g.keptMatches[n], i) {
					dropped = append(dropped, fmt.Sprintf("matches[%d]", i))
				}
			}
			told = append(told, fmt.Sprintf("%s cannot express %s of step %d", g.ref, strings.Join(dropped, " and "), n))
		}
	}
	if len(told) == 0 {
		return nil
	}
	return &rollout.Problem{Reason: rollout.ReasonMatchesDropped, Message: "Other gateway objects of the release express all matches, but " + strings.Join(told, "; ") +
		". Requests through it that only such a match selects go to the stable version"}
}
