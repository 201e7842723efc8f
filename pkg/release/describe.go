package release

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// WorkloadOf returns the workload that the Rollout names, in either API shape; both results are empty if it names no workload.
func WorkloadOf(r *api.Rollout) (kind, name string) {
	if ref := r.Spec.Workload(); ref != nil {
		return ref.Kind, ref.Name
	}
	return "", ""
}

// DescribeSteps describes each step of a Rollout in a few words.
func DescribeSteps(r *api.Rollout) []string {
	spec, err := rollout.Parse(r) // with an invalid Rollout, a release waits at every step
	var all []string
	for i, s := range Steps(r) {
		all = append(all, describeStep(s, err == nil && spec.StepPasses(int32(i+1))))
	}
	return all
}

func describeStep(s api.Step, passes bool) string {
	var parts []string
	switch {
	case s.Replicas != nil:
		parts = append(parts, "replicas "+s.Replicas.String())
	case s.Weight != nil:
		parts = append(parts, fmt.Sprintf("replicas %d%%", *s.Weight))
	}
	switch {
	case s.Traffic != nil:
		parts = append(parts, "traffic "+*s.Traffic)
	case s.Weight != nil:
		parts = append(parts, fmt.Sprintf("traffic %d%%", *s.Weight))
	}
	var matches []string
	for _, m := range s.Matches {
		matches = append(matches, describeMatch(m))
	}
	if len(matches) > 0 {
		parts = append(parts, "requests with "+strings.Join(matches, " or "))
	}
	if s.Mirror != nil {
		parts = append(parts, "mirrors "+cmp.Or(s.Mirror.Traffic, "100%")+" of the requests")
	}
	if s.RequestHeaderModifier != nil {
		parts = append(parts, "headers changed")
	}
	promotes := s.Analysis != nil && s.Analysis.AutoPromote && !s.Analysis.DryRun
	switch duration := s.Pause.Duration; {
	case duration == nil && promotes:
		parts = append(parts, "until its metrics pass")
	case passes:
	case duration == nil:
		parts = append(parts, "until approved")
	case *duration > 0:
		parts = append(parts, "for "+(time.Duration(*duration)*time.Second).String())
	}
	if s.Analysis != nil && (!promotes || s.Pause.Duration != nil) {
		parts = append(parts, "analysis")
	}
	return strings.Join(parts, ", ")
}

func describeMatch(m api.HTTPRouteMatch) string {
	var parts []string
	if p := m.Path; p != nil && p.Value != nil {
		parts = append(parts, "path"+MatchOperator(p.Type)+*p.Value)
	}
	for _, h := range m.Headers {
		parts = append(parts, h.Name+MatchOperator(h.Type)+h.Value)
	}
	for _, q := range m.QueryParams {
		parts = append(parts, "?"+q.Name+MatchOperator(q.Type)+q.Value)
	}
	if c := m.Cookie; c != nil {
		parts = append(parts, "cookie "+c.Name+MatchOperator(c.Type)+c.Value)
	}
	return strings.Join(parts, " and ")
}

// MatchOperator returns the comparison of a kind of match: = compares the whole value, ^= its beginning, and ~ uses a regular expression.
func MatchOperator(kind *string) string {
	switch {
	case kind == nil:
		return "="
	case *kind == api.MatchPathPrefix || *kind == api.MatchPrefix:
		return "^="
	case *kind == api.MatchRegularExpression:
		return "~"
	}
	return "="
}
