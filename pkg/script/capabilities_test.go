package script

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestAStepThatAKindCannotExpressIsRefused(t *testing.T) {
	t.Parallel()
	match := func(conditions ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(conditions); i += 2 {
			m[conditions[i].(string)] = conditions[i+1]
		}
		return m
	}
	header := func(how string) []any { return []any{map[string]any{"type": how, "name": "a", "value": "b"}} }
	all := Capabilities{Weights: true, Paths: []string{"Exact", "PathPrefix"}, Headers: []string{"Exact"}, QueryParams: []string{"Exact"}, And: true, Or: true,
		MatchesAndWeight: true, HeaderModifier: []string{"set"}}
	only := func(change func(*Capabilities)) *Capabilities {
		c := all
		change(&c)
		return &c
	}
	step := func(weight int, matches ...any) Input {
		return Input{CanaryWeight: weight, Matches: matches, StableService: "web", CanaryService: "web-canary"}
	}
	modified := step(20)
	modified.RequestHeaderModifier = map[string]any{"remove": []any{"x"}}
	shared := step(20)
	shared.CanaryService = "web"
	copied := step(NoWeight)
	copied.Mirror = 0.5
	copiedChanged := copied
	copiedChanged.RequestHeaderModifier = map[string]any{"set": []any{"x"}}
	tagged := step(20, match("headers", header("Exact")))
	tagged.RequestHeaderModifier, tagged.Tag = map[string]any{"set": []any{"x"}}, &Tag{}
	whole := only(func(c *Capabilities) { c.Mirror, c.MirrorStep = true, 1 })
	matched := only(func(c *Capabilities) { c.HeadersOfMatches = true })
	changed := step(20)
	changed.RequestHeaderModifier = map[string]any{"set": []any{"x"}}
	fine := func(percent float64) Input {
		in := step(0)
		in.SetShare(percent)
		return in
	}
	bounded := only(func(c *Capabilities) {
		c.WeightMin, c.WeightMax, c.WeightStep, c.Instead = 1, 99, 0.1, "use a step between"
	})
	least, one := only(func(c *Capabilities) { c.WeightMin = 5 }), only(func(c *Capabilities) { c.SeveralReleases = new(false) })
	second := step(20)
	second.Others = []string{"the release of Rollout shop"}
	changedMatches := changed
	changedMatches.Matches = []any{match("headers", header("Exact"))}
	for name, c := range map[string]struct {
		can  *Capabilities
		step Input
		want string
	}{
		"a share":                              {&all, step(20), ""},
		"matches":                              {&all, step(NoWeight, match("headers", header("Exact")), match("path", map[string]any{"value": "/a"}, "headers", header(""))), ""},
		"no shares":                            {only(func(c *Capabilities) { c.Weights = false }), step(0), "it cannot share traffic by weight"},
		"no matches":                           {&Capabilities{Weights: true, Instead: "use traffic"}, step(NoWeight, match("headers", header("Exact"))), "it takes no matches; use traffic"},
		"one match":                            {only(func(c *Capabilities) { c.Or = false }), step(NoWeight, match("headers", header("Exact")), match("headers", header("Exact"))), "it takes one match a step"},
		"one condition":                        {only(func(c *Capabilities) { c.And = false }), step(NoWeight, match("headers", header("Exact"), "queryParams", header("Exact"))), "matches[0]: it takes one condition"},
		"either matches or a share":            {only(func(c *Capabilities) { c.MatchesAndWeight = false }), step(20, match("headers", header("Exact"))), "it cannot have matches and a share of the traffic in one step"},
		"another way of comparing":             {&all, step(NoWeight, match("headers", header("RegularExpression"))), "matches[0]: it compares headers by Exact, not by RegularExpression"},
		"a part that is not compared":          {only(func(c *Capabilities) { c.QueryParams = nil }), step(NoWeight, match("queryParams", header("Exact"))), "matches[0]: it cannot route by query parameters"},
		"a path that is a prefix unsaid":       {only(func(c *Capabilities) { c.Paths = []string{"Exact"} }), step(NoWeight, match("path", map[string]any{"value": "/a"})), "matches[0]: it compares the path by Exact, not by PathPrefix"},
		"a match of nothing":                   {&all, step(NoWeight, match()), "matches[0]: it has no condition; give it a path, headers or queryParams"},
		"headers that cannot be removed":       {&all, modified, "it cannot remove request headers"},
		"copies of whole percents":             {whole, copied, "it copies requests in steps of 1%, and mirror asks for 0.5%"},
		"copies of any share":                  {only(func(c *Capabilities) { c.Mirror = true }), copied, ""},
		"headers of copies":                    {only(func(c *Capabilities) { c.Mirror = true }), copiedChanged, "requestHeaderModifier changes requests that go to the canary, and the step only copies requests (mirror)"},
		"headers of what matches":              {matched, changedMatches, ""},
		"headers of a share":                   {matched, changed, "it changes headers of requests that match, and not of a share of the traffic"},
		"the tag of a share":                   {matched, tagged, "it changes headers of requests that match, and not of a share of the traffic"},
		"nothing, where something must be":     {bounded, step(0), "it takes shares of 1% to 99%, and the step asks for 0%; use a step between"},
		"all, where something must be left":    {bounded, step(100), "it takes shares of 1% to 99%, and the step asks for 100%; use a step between"},
		"less than the least":                  {bounded, fine(0.9), "it takes shares of 1% to 99%, and the step asks for 0.9%; use a step between"},
		"more than the greatest":               {bounded, fine(99.5), "it takes shares of 1% to 99%, and the step asks for 99.5%; use a step between"},
		"the least share":                      {bounded, step(1), ""},
		"the greatest share":                   {bounded, step(99), ""},
		"no share, where something must be":    {bounded, step(NoWeight, match("headers", header("Exact"))), ""},
		"all, where only the least is said":    {least, step(100), ""},
		"too little, where only that is said":  {least, step(4), "it takes shares of 5% to 100%, and the step asks for 4%"},
		"a second release":                     {&all, second, ""},
		"a second release, where one is taken": {one, second, "it takes one release at a time, and the release of Rollout shop is on the object; wait until that has ended"},
		"the only release, where one is taken": {one, step(20), ""},
		"one Service":                          {&all, shared, "it tells versions apart by their Services, and both stand behind Service web; let the release make a canary Service (disableGenerateCanaryService: false)"},
		"a kind that others route to":          {&Capabilities{Referenced: true}, shared, ""},
		"a kind of which nothing is said":      {nil, shared, ""},
	} {
		if diff := cmp.Diff(c.want, c.can.StepRefusal(c.step)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhatIsSaidOfSharesIsReadAsItIsMeant(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"weights: true\nweightMin: 1\nweightMax: 99\nweightSum: 100\nseveralReleases: false": "",
		"weights: true\nweightMin: 50\nweightMax: 50":                                        "",
		"weights: true\nweightMin: -1":                                                       "weightMin is -1; it may be 0 to 100",
		"weights: true\nweightMin: 101":                                                      "weightMin is 101; it may be 0 to 100",
		"weights: true\nweightMax: 256":                                                      "weightMax is 256; it may be 0 to 100",
		"weights: true\nweightSum: -100":                                                     "weightSum is -100; it may be 0 to 1000000",
		"weights: true\nweightStep: -1":                                                      "weightStep is -1; it may be 0 to 100",
		"weights: true\nweightMin: 60\nweightMax: 50":                                        "weightMax 50 is less than weightMin 60",
		"weights: true\nsticky: kept":                                                        "",
		"weights: true\nsticky: always":                                                      `sticky is "always"; it may be kept, broken, refused`,
		"weightSum: 100":                                                                     "weightSum is about shares, and weights is not true; set it, or remove weightSum",
		"weightMax: all":                                                                     "weightMax",
		"reads: [{apiVersion: example.com/v1, kind: Plugins, field: p, namespaceField: n}]": "",
		"reads: [{apiVersion: v1, field: p}]":                                               "reads[0]: it needs kind and field",
		"reads: [{apiVersion: v1, kind: Plugins}]":                                          "reads[0]: it needs kind and field",
		"severalReleases: \"sometimes\"":                                                    "severalReleases",
	} {
		c, err := ParseCapabilities([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q is read as %+v (%v), want %q", text, c, err, want)
		}
	}
}

func TestWhatIsSaidOfAKindStandsBesideItsScript(t *testing.T) {
	t.Parallel()
	const said = "weights: true\n"
	tree := fstest.MapFS{
		"g/Told/trafficRouting.lua":    {Data: []byte("return obj.data")},
		"g/Told/capabilities.yaml":     {Data: []byte(said)},
		"g/Untold/trafficRouting.lua":  {Data: []byte("return obj.data")},
		"g/Garbled/trafficRouting.lua": {Data: []byte("return obj.data")},
		"g/Garbled/capabilities.yaml":  {Data: []byte("headers: [Prefixed]\n")},
	}
	cm := ConfigMap{Name: "ns/scripts", Data: map[string]string{
		ConfigMapKey("h", "Told"): "return obj.data", "capabilities.traffic.routing.Told.h": said, ConfigMapKey("h", "Untold"): "return obj.data",
	}}
	library := NewLibrary(tree, "")
	for _, c := range []struct {
		group, kind string
		want        *Capabilities
	}{{"g", "Told", &Capabilities{Weights: true}}, {"g", "Untold", nil}, {"h", "Told", &Capabilities{Weights: true}}, {"h", "Untold", nil}} {
		source, err := library.FindScript(c.group, c.kind, cm)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, source.Capabilities); diff != "" {
			t.Errorf("%s/%s (-want +got):\n%s", c.group, c.kind, diff)
		}
	}
	if _, err := library.FindScript("g", "Garbled", cm); err == nil || !strings.Contains(err.Error(), `headers has "Prefixed"; it may have Exact, RegularExpression`) {
		t.Errorf("got %v", err)
	}
}
