package gateway

import (
	"slices"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/traffic"
)

// anything returns the capabilities of a kind that accepts any step.
func anything() *script.Capabilities {
	compared := []string{"Exact", "RegularExpression"}
	return &script.Capabilities{
		Weights: true, WeightStep: 0.001, Mirror: true, Paths: append(compared, "PathPrefix"), Headers: compared, QueryParams: compared,
		And: true, Or: true, MatchesAndWeight: true, HeaderModifier: []string{"set", "add", "remove"},
	}
}

// ask draws the steps of a release from all capabilities of a kind.
func (d draw) ask(can *script.Capabilities, rel *traffic.Release) (steps []traffic.Strategy) {
	if can.Referenced {
		can = anything()
		if d.chance(50) {
			rel.PatchLabels = map[string]string{"version": "canary"}
		}
	}
	if can.Routes && d.chance(10) {
		rel.Rules = []string{"web"}
	}
	if marks := can.MatchesAndWeight && !can.HeadersOfMatches && slices.Contains(can.HeaderModifier, "set"); marks && d.chance(20) {
		rel.Tag = &api.TrafficTag{Header: "x-lane", Value: one(d, "gray", "a`b")}
	}
	for range 2 + d.IntN(3) {
		steps = append(steps, d.step(can))
	}
	return steps
}

func (d draw) step(can *script.Capabilities) (s traffic.Strategy) {
	matched := len(can.Paths)+len(can.Headers)+len(can.QueryParams) > 0 && d.chance(50)
	shared := !matched || can.MatchesAndWeight && d.chance(40)
	if can.Mirror && d.chance(30) {
		share := one[rollout.Percent](d, 1, 10, 100)
		if can.MirrorStep == 0 {
			share = one(d, share, 0.5, 33.3)
		}
		s.Mirror = &share
		shared = shared && d.chance(50)
	}
	if shared {
		share := one[rollout.Percent](d, 0, 1, 20, 33, 50, 99, 100)
		if can.WeightStep != 0 && d.chance(25) {
			share = one[rollout.Percent](d, 0.5, 33.3, 0.001, 99.999)
		}
		s.Weight = &share
	}
	if matched {
		s.Matches = []api.HTTPRouteMatch{d.match(can)}
		if can.Or && d.chance(40) {
			s.Matches = append(s.Matches, d.match(can))
		}
	}
	if (matched || shared && !can.HeadersOfMatches) && d.chance(30) {
		s.RequestHeaderModifier = d.change(can.HeaderModifier)
	}
	return s
}

// match has one condition, or several of a kind that takes them.
func (d draw) match(can *script.Capabilities) (m api.HTTPRouteMatch) {
	var conditions []func()
	if len(can.Paths) > 0 {
		conditions = append(conditions, func() {
			how := one(d, can.Paths...)
			value := map[string]string{"Exact": one(d, "/a", "/a/b"), "PathPrefix": one(d, "/", "/a", "/a/"), "RegularExpression": one(d, "/a.*", "/[0-9]+")}[how]
			m.Path = &api.HTTPPathMatch{Type: &how, Value: &value}
		})
	}
	for _, name := range []string{"x-user", "X-B"} {
		if len(can.Headers) == 0 {
			break
		}
		conditions = append(conditions, func() {
			how := one(d, can.Headers...)
			if how == "RegularExpression" {
				how = one(d, how, "Prefix")
			}
			m.Headers = append(m.Headers, api.HTTPHeaderMatch{Type: &how, Name: name, Value: d.compared(how)})
		})
	}
	if len(can.QueryParams) > 0 {
		conditions = append(conditions, func() {
			how := one(d, can.QueryParams...)
			m.QueryParams = append(m.QueryParams, api.HTTPQueryParamMatch{Type: &how, Name: "a", Value: d.compared(how)})
		})
	}
	if slices.Contains(can.Headers, "RegularExpression") {
		conditions = append(conditions, func() {
			how := one(d, "Exact", "RegularExpression")
			m.Cookie = &api.HTTPCookieMatch{Type: &how, Name: "group", Value: one(d, "beta", "b")}
		})
	}
	d.Shuffle(len(conditions), func(i, j int) { conditions[i], conditions[j] = conditions[j], conditions[i] })
	most := 1
	if can.And {
		most = min(3, len(conditions))
	}
	for _, add := range conditions[:1+d.IntN(most)] {
		add()
	}
	return m
}

// compared is a value that is compared in a way.
func (d draw) compared(how string) string {
	switch how {
	case "RegularExpression":
		return one(d, "b.*", "^a$", "a|b", "[0-9]+")
	case "Prefix":
		return one(d, "b-", "a.b(", "`")
	}
	return one(d, "beta", "a", "a`b", `say "x"`, "100%", `back\slash`)
}

// change is of request headers, by some of the verbs that a kind has.
func (d draw) change(verbs []string) *api.HTTPHeaderFilter {
	change := &api.HTTPHeaderFilter{}
	for _, verb := range verbs {
		switch {
		case !d.chance(60):
		case verb == "set":
			change.Set = []api.HTTPHeader{{Name: one(d, "x-version", "X-User"), Value: one(d, "new", "a`b")}}
		case verb == "add":
			change.Add = []api.HTTPHeader{{Name: "x-added", Value: "canary"}}
		case verb == "remove":
			change.Remove = []string{one(d, "x-old", "a")}
		}
	}
	if len(change.Set)+len(change.Add)+len(change.Remove) == 0 {
		return nil
	}
	return change
}
