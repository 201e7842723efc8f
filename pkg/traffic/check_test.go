package traffic

import (
	"strings"
	"testing"
)

func TestAScriptsResultIsCheckedBeforeItIsWritten(t *testing.T) {
	own := Release{UID: "u", Name: "r", Service: "web", CanaryService: "web-canary"}
	shared := Release{UID: "u", Name: "r", Service: "web", CanaryService: "web"}
	both := weight(20)
	both.Matches = header("a", "b").Matches
	const plainRule = `{http: [{route: [{destination: {host: web}}]}]}`
	const twoServices = `{http: [{route: [{destination: {host: web}, weight: 60}, {destination: {host: api}, weight: 40}]}]}`
	const backendRefs = `{rules: [{backendRefs: [{name: web, port: 80, weight: 5}]}]}`
	const destinationRule = `{host: web, subsets: [{name: base, labels: {version: base}}]}`
	cases := map[string]struct {
		rel           Release
		strategy      Strategy
		before, after string
		refused       string // part of the reason; "" when it is fine
	}{
		"a plain split": {own, weight(20), plainRule,
			`{http: [{route: [{destination: {host: web}, weight: 80}, {destination: {host: web-canary}, weight: 20}]}]}`, ""},
		"a split by fully qualified hosts": {own, weight(20), `{http: [{route: [{destination: {host: web.shop.svc}}]}]}`,
			`{http: [{route: [{destination: {host: web.shop.svc}, weight: 80}, {destination: {host: web-canary.shop.svc}, weight: 20}]}]}`, ""},
		"everything to the canary beside a stable weight of 0": {own, weight(100), plainRule,
			`{http: [{route: [{destination: {host: web}, weight: 0}, {destination: {host: web-canary}, weight: 100}]}]}`, ""},
		"everything to the canary alone": {own, weight(100), plainRule, `{http: [{route: [{destination: {host: web-canary}}]}]}`, ""},
		"nothing to the canary":          {own, weight(0), plainRule, plainRule, ""},
		"a header rule before the stable one": {own, header("a", "b"), plainRule,
			`{http: [{match: [{headers: {a: {exact: b}}}], route: [{destination: {host: web-canary}}]}, {route: [{destination: {host: web}}]}]}`, ""},
		"a header rule and a split": {own, both, plainRule,
			`{http: [{match: [{}], route: [{destination: {host: web-canary}}]}, {route: [{destination: {host: web}, weight: 80}, {destination: {host: web-canary}, weight: 20}]}]}`, ""},
		"a header rule that keeps the stable Service at 0": {own, both, plainRule,
			`{http: [{match: [{}], route: [{destination: {host: web}, weight: 0}, {destination: {host: web-canary}, weight: 100}]}, {route: [{destination: {host: web}, weight: 80}, {destination: {host: web-canary}, weight: 20}]}]}`, ""},
		"a canary subset of a shared Service": {shared, weight(20), plainRule,
			`{http: [{route: [{destination: {host: web}, weight: 80}, {destination: {host: web, subset: canary}, weight: 20}]}]}`, ""},
		"a share of the stable part only": {own, weight(20), twoServices,
			`{http: [{route: [{destination: {host: web}, weight: 48}, {destination: {host: api}, weight: 40}, {destination: {host: web-canary}, weight: 12}]}]}`, ""},
		"a share of the whole rule": {own, weight(20), twoServices,
			`{http: [{route: [{destination: {host: web}, weight: 48}, {destination: {host: api}, weight: 32}, {destination: {host: web-canary}, weight: 20}]}]}`, ""},
		"weights rounded down": {own, weight(33), twoServices,
			`{http: [{route: [{destination: {host: web}, weight: 40}, {destination: {host: api}, weight: 26}, {destination: {host: web-canary}, weight: 33}]}]}`, ""},
		"relative weights with the right share": {own, weight(20), backendRefs,
			`{rules: [{backendRefs: [{name: web, port: 80, weight: 4}, {name: web-canary, port: 80, weight: 1}]}]}`, ""},
		"a new subset of a DestinationRule": {shared, weight(20), destinationRule,
			`{host: web, subsets: [{name: base, labels: {version: base}}, {name: canary, labels: {version: canary}}]}`, ""},
		"a kind without backends that stays as it is": {own, weight(20), destinationRule, destinationRule, ""},
		"mirrors": {own, weight(0), plainRule, `{http: [{route: [{destination: {host: web}}], mirrors: [{destination: {host: spy}, percentage: {value: 5}}]}]}`, ""},
		"a Service that the canary replaces in one rule but not in the other": {own, header("a", "b"),
			`{http: [{route: [{destination: {host: web}}]}, {route: [{destination: {host: web}}]}]}`,
			`{http: [{route: [{destination: {host: web-canary}}]}, {route: [{destination: {host: web}}]}]}`, ""},

		"weights that add up to 70": {own, weight(20), plainRule,
			`{http: [{route: [{destination: {host: web}, weight: 50}, {destination: {host: web-canary}, weight: 20}]}]}`, "28.6%"},
		"weights that add up to 70 with less for the canary": {own, weight(20), plainRule,
			`{http: [{route: [{destination: {host: web}, weight: 65}, {destination: {host: web-canary}, weight: 5}]}]}`, "add up to 70"},
		"more for the canary than the step asks": {own, weight(20), plainRule,
			`{http: [{route: [{destination: {host: web}, weight: 64}, {destination: {host: web-canary}, weight: 20}, {destination: {host: web-canary}, weight: 16}]}]}`, "36%"},
		"weights that are all 0": {own, weight(20), plainRule,
			`{http: [{route: [{destination: {host: web}, weight: 0}, {destination: {host: web-canary}, weight: 0}]}]}`, "no traffic for the stable Service"},
		"a negative weight": {own, weight(20), plainRule,
			`{http: [{route: [{destination: {host: web}, weight: 101}, {destination: {host: web-canary}, weight: -1}]}]}`, "negative"},
		"a lost backend": {own, weight(20), twoServices,
			`{http: [{route: [{destination: {host: web}, weight: 80}, {destination: {host: web-canary}, weight: 20}]}]}`, "drops the backend api"},
		"a lost stable Service": {own, weight(20), plainRule, `{http: [{route: [{destination: {host: web-canary}}]}]}`, "drops the backend web"},
		"a stable Service without weight": {own, weight(20), plainRule,
			`{http: [{route: [{destination: {host: web}, weight: 0}, {destination: {host: web-canary}, weight: 100}]}]}`, "no traffic for the stable Service web"},
		"a foreign backend": {own, weight(20), plainRule,
			`{http: [{route: [{destination: {host: web}, weight: 80}, {destination: {host: evil}, weight: 20}]}]}`, "adds the backend evil"},
		"no rule for the Service": {own, weight(20), `{http: [{route: [{destination: {host: other}}]}]}`,
			`{http: [{route: [{destination: {host: other}}]}]}`, "would send nothing to the canary"},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			spec := func(text string) any { return object(t, "spec: "+text).Object["spec"] }
			err := checkRendering(spec(c.before), spec(c.after), nil, 0, c.rel.entryAt(1, c.strategy))
			switch {
			case c.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.refused != "" && err == nil:
				t.Errorf("it passed")
			case c.refused != "" && !strings.Contains(err.Error(), c.refused):
				t.Errorf("refused for another reason: %v", err)
			}
		})
	}
}

// A kind says in its capabilities that its weights must have one sum. Relative weights with the same share are refused then.
func TestWeightsOfAKindAddUpToWhatItSays(t *testing.T) {
	t.Parallel()
	e := Release{UID: "u", Name: "r", Service: "web", CanaryService: "web-canary"}.entryAt(1, weight(20))
	matched := Release{UID: "u", Name: "r", Service: "web", CanaryService: "web-canary"}.entryAt(1, header("a", "b"))
	spec := func(backends string) any {
		return specOf(t, "  {rules: [{backends: ["+backends+"]}, {backends: [{name: api, weight: 7}]}]}")
	}
	before := spec("{name: web, weight: 100}")
	for name, c := range map[string]struct {
		after string
		sum   float64
		asked entry
		want  string
	}{
		"as it says":          {"{name: web, weight: 80}, {name: web-canary, weight: 20}", 100, e, ""},
		"less":                {"{name: web, weight: 4}, {name: web-canary, weight: 1}", 100, e, "add up to 5, and the kind takes those that add up to 100 (weightSum of its capabilities)"},
		"one less":            {"{name: web, weight: 79}, {name: web-canary, weight: 20}", 100, e, "add up to 99"},
		"any sum":             {"{name: web, weight: 4}, {name: web-canary, weight: 1}", 0, e, ""},
		"256 parts":           {"{name: web, weight: 205}, {name: web-canary, weight: 51}", 256, e, ""},
		"percents of 256":     {"{name: web, weight: 80}, {name: web-canary, weight: 20}", 256, e, "add up to 100, and the kind takes those that add up to 256"},
		"without a share":     {"{name: web, weight: 80}, {name: web-canary, weight: 10}", 100, matched, "add up to 90"},
		"without any weights": {"{name: web}, {name: web-canary}", 100, matched, ""},
	} {
		err := checkRendering(before, spec(c.after), nil, c.sum, c.asked)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
