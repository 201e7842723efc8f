package script

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatScriptsHaveInCommon(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ source, want string }{
		"a copy is of one level":            {`local c = rollout.copy(obj); c.n = 2; c.list[1] = "x"; return {c.n, obj.n, obj.list[1]}`, `[2,1,"x"]`},
		"a clone is of all":                 {`local c = rollout.clone(obj); c.list[1] = "x"; return {obj.list[1], c.list[1]}`, `["a","x"]`},
		"a copy keeps what JSON knows":      {`return rollout.copy(obj)`, `{"big":9007199254740993,"empty":[],"list":["a",null],"n":1,"none":null,"object":{}}`},
		"a clone keeps it too":              {`return rollout.clone({inner = obj})`, `{"inner":{"big":9007199254740993,"empty":[],"list":["a",null],"n":1,"none":null,"object":{}}}`},
		"a share of one":                    {`local taken, left = rollout.split({100}, 33); return {taken, left}`, `[33,[67]]`},
		"the remainder stays":               {`local taken, left = rollout.split({33, 33, 34}, 50); return {taken, left}`, `[50,[17,16,17]]`},
		"a share above 0 is one at least":   {`local taken, left = rollout.split({3}, 1); return {taken, left}`, `[1,[2]]`},
		"of nothing":                        {`local taken, left = rollout.split({0, 0}, 50); return {taken, left}`, `[0,[0,0]]`},
		"matches are combined":              {`return rollout.cross({{a=1}, {a=2}}, {{b=1}, {b=2}}, function(x, y) if x.a ~= y.b then return {x.a, y.b} end end)`, `[[1,2],[2,1]]`},
		"an owner without matches":          {`return rollout.cross(nil, {{b=1}}, function(x, y) return {next(x) == nil, y.b} end)`, `[[true,1]]`},
		"a text as a regular expression":    {`return rollout.quote("a.b*c[1](x|y)^$\\+?{}")`, `"a\\.b\\*c\\[1\\]\\(x\\|y\\)\\^\\$\\\\\\+\\?\\{\\}"`},
		"paths by whole segments":           {`local u = rollout.under; return {u("/a/b", "/a"), u("/a", "/a/"), u("/a/", "/a"), u("/ab", "/a"), u("/a", "/"), u("/a", "/a/b")}`, `[true,true,true,false,true,false]`},
		"conditions that exclude another":   {`return rollout.conditions({{name="A", value="1"}}, {{name="a", value="2"}}, "header", rollout.sameHeader) == nil`, `true`},
		"conditions that are there":         {`return rollout.conditions({{name="A", value="1"}}, {{name="a", type="Exact", value="1"}}, "header", rollout.sameHeader)`, `[{"name":"A","value":"1"}]`},
		"parameters whose case matters":     {`return #rollout.conditions({{name="A", value="1"}}, {{name="a", value="2"}}, "query parameter", rollout.sameParam)`, `2`},
		"headers on top of others":          {`return rollout.headers({set={{name="a", value="2"}}, remove={"c"}}, {set={{name="A", value="1"}, {name="B", value="1"}}, remove={"d"}})`, `{"remove":["d","c"],"set":[{"name":"B","value":"1"},{"name":"a","value":"2"}]}`},
		"a name that is not there":          {`return {rollout.nothing == nil, rollout[1] == nil, rollout.clone == rollout.clone}`, `[true,true,true]`},
		"a script may change what is there": {`function rollout.under() return "mine" end return {rollout.under("/a", "/b"), rollout.quote(".")}`, `["mine","\\."]`},
		"shares among all":                  {`local a = {{weight=2}, {}} return {rollout.shares(a, a, 25, 1), a[1].weight, a[2].weight}`, `[25,51,24]`},
		"shares beside others":              {`local s, o = {weight=9}, {} return {rollout.shares({s, o}, {s}, 20, 1), s.weight, o.weight}`, `[180,720,100]`},
		"whole values, and paths below":     {`return {rollout.whole("a|b"), rollout.prefixed("/v1.0/"), rollout.prefixed("/")}`, `["^(?:a|b)$","^/v1\\.0(?:/|$)","^/"]`},
		"headers by name":                   {`return rollout.headerMaps({set={{name="a", value="2"}}, remove={"c"}}, {set={b="1"}, remove={"d"}})`, `{"remove":["d","c"],"set":{"a":"2","b":"1"}}`},
		"a match of a mesh":                 {`return rollout.terms({path={value="/a"}, headers={{name="x", value="1"}}}, "Route", "uri")`, `{"headers":{"x":{"exact":"1"}},"uri":{"prefix":"/a"}}`},
		"a match of an owner's, narrowed":   {`return rollout.combine({uri={prefix="/a"}, port=1}, {uri={exact="/a/b"}, headers={x={exact="1"}}}, "uri")`, `{"headers":{"x":{"exact":"1"}},"port":1,"uri":{"exact":"/a/b"}}`},
		"a match that excludes another":     {`return rollout.combine({uri={prefix="/a"}}, {uri={exact="/b"}}, "uri") == nil`, `true`},
		"an object that is read, by a reference": {`obj.reads = {{kind="K", metadata={name="a", namespace="shop"}}, {kind="K", metadata={name="a", namespace="edge"}}, {kind="L", metadata={name="a", namespace="edge"}}}
			local n = function(ref) return rollout.named("K", ref, "shop") end
			return {n({name="a"}) == obj.reads[1], n({name="a", namespace=""}) == obj.reads[1], n({name="a", namespace="edge"}) == obj.reads[2], n({name="b"}) == nil, rollout.named("M", {name="a"}, "shop") == nil}`, `[true,true,true,true,true]`},
		"without objects that are read":        {`return rollout.named("K", {name="a"}, "shop") == nil`, `true`},
		"an object that the release routes on": {`obj.stableService = "web" return {rollout.routed({services={"api", "web"}}), rollout.routed({services={"api"}}), rollout.routed({})}`, `[true,false,false]`},
		"advice to route on an object": {`obj.namespace = "shop" local of = function(ns) return rollout.toRoute({kind="K", metadata={name="a", namespace=ns}}) end return {of("shop"), of("edge")}`,
			`["name K a in customNetworkRefs of trafficRoutings as well","move K a from namespace edge to namespace shop and name it in customNetworkRefs of trafficRoutings as well"]`},
		"a script may use the name itself": {`rollout = "mine" return rollout`, `"mine"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, err := Compile("test", c.source)
			if err != nil {
				t.Fatal(err)
			}
			in := map[string]any{"n": int64(1), "big": int64(9007199254740993), "list": []any{"a", nil}, "empty": []any{}, "object": map[string]any{}, "none": nil}
			got, err := program.Run(t.Context(), in, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(text)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestConditionsThatNobodyCanCombineAreRefused(t *testing.T) {
	t.Parallel()
	program, err := Compile("test", `return rollout.conditions({{name="a", value="1"}}, {{name="a", type="RegularExpression", value=".*"}}, "header", rollout.sameHeader)`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := program.Run(t.Context(), nil, Limits{}); err == nil || !strings.Contains(err.Error(), "cannot combine two conditions on the header a when one is a regular expression") {
		t.Errorf("got %v", err)
	}
}
