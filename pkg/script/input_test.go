package script

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestObjHasTheFieldsOfOpenKruise(t *testing.T) {
	in := Input{Spec: map[string]any{"a": []any{}}, CanaryWeight: NoWeight, StableService: "svc", CanaryService: "svc-canary"}
	want := map[string]any{
		"apiLevel": int64(2), "canaryService": "svc-canary", "canaryWeight": int64(-1),
		"data": map[string]any{"spec": map[string]any{"a": []any{}}}, "stableService": "svc", "stableWeight": int64(101),
	}
	if diff := cmp.Diff(want, in.LuaObject()); diff != "" {
		t.Error(diff)
	}
}

func TestAScriptIsToldWhatItAsksFor(t *testing.T) {
	in := Input{
		CanaryWeight: NoWeight, StableService: "web", CanaryService: "web-canary", Routes: []string{"all"}, Tells: []string{TellPorts, tellServices, TellTargets},
		Ports:     []Port{{Name: "http", Port: 80, TargetPort: "web", Protocol: "TCP", AppProtocol: "h2c"}, {Port: 81, TargetPort: int64(8081)}},
		Revisions: &Revisions{Label: "pod-template-hash", Stable: "a"}, Services: []Service{{"web", "web-canary"}, {"api", "api-canary"}},
	}
	in.SetShare(0.5)
	in.SetTag(Tag{Header: "x-tag", Value: "gray", Label: "tag"})
	got := in.LuaObject()
	want := map[string]any{
		"ports": []any{
			map[string]any{"name": "http", "port": int64(80), "targetPort": "web", "protocol": "TCP", "appProtocol": "h2c"},
			map[string]any{"port": int64(81), "targetPort": int64(8081)},
		},
		"services": []any{map[string]any{"stable": "web", "canary": "web-canary"}, map[string]any{"stable": "api", "canary": "api-canary"}},
		"targets": []any{
			map[string]any{"role": "stable", "service": "web", "weight": 99.5, "revision": "a", "labels": map[string]any{"pod-template-hash": "a"}},
			map[string]any{"role": "canary", "service": "web-canary", "weight": 0.5},
		},
		"routes":                []any{"all"},
		"tag":                   map[string]any{"header": "x-tag", "value": "gray", "labelKey": "tag", "labelValue": "gray"},
		"matches":               []any{map[string]any{"headers": []any{map[string]any{"type": "Exact", "name": "x-tag", "value": "gray"}}}},
		"requestHeaderModifier": map[string]any{"set": []any{map[string]any{"name": "x-tag", "value": "gray"}}},
	}
	for key, value := range want {
		if diff := cmp.Diff(value, got[key]); diff != "" {
			t.Errorf("obj.%s (-want +got):\n%s", key, diff)
		}
	}
	in.Tells, in.Services, in.Routes = nil, nil, nil
	for _, key := range []string{"ports", "services", "targets", "routes"} {
		if _, told := in.LuaObject()[key]; told {
			t.Errorf("obj.%s is there, and nobody asked for it", key)
		}
	}
}

func TestWhatAScriptMayReturn(t *testing.T) {
	in := Input{Spec: map[string]any{"x": int64(1)}, Labels: map[string]string{"app": "demo"}}
	for name, c := range map[string]struct {
		source string
		want   Output
		err    string
	}{
		"obj.data":             {`obj.data.spec.x = 2 return obj.data`, Output{Spec: map[string]any{"x": int64(2)}, Labels: map[string]string{"app": "demo"}}, ""},
		"a table of its own":   {`return {spec = {}, annotations = {a = "b"}}`, Output{Spec: map[string]any{}, Annotations: map[string]string{"a": "b"}}, ""},
		"labels taken away":    {`return {spec = {}, labels = {}}`, Output{Spec: map[string]any{}, Labels: map[string]string{}}, ""},
		"nothing":              {``, Output{}, "expect table output from Lua script, not nil"},
		"a string":             {`return "x"`, Output{}, "expect table output from Lua script, not string"},
		"a number":             {`return 1`, Output{}, "expect table output from Lua script, not number"},
		"a list":               {`return {1}`, Output{}, "not a list"},
		"a table without spec": {`return {labels = {}}`, Output{}, "has no spec; return obj.data"},
		"labels that are text": {`return {spec = {}, labels = "x"}`, Output{}, "labels in the returned table must be a table"},
		"a label of 1":         {`return {spec = {}, labels = {a = 1}}`, Output{}, `use tostring for "a"`},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Compile("test", c.source)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Render(t.Context(), in, Limits{})
			if c.err != "" {
				var e *Error
				if !errors.As(err, &e) || e.Kind != KindOutput || !strings.Contains(e.Message, c.err) {
					t.Fatalf("got %v, want kind Output with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestErrorsNameScriptAndLine(t *testing.T) {
	for name, c := range map[string]struct{ source, want string }{
		"raised by the script":  {"local x = 1\nerror('no such route')", "script test, line 2: no such route"},
		"raised without a line": {"error('no such route', 0)", "script test: no such route"},
		"raised by Lua":         {"\n\nreturn obj.data.spec.x", "script test, line 3: attempt to index a non-table object(nil) with key 'spec'"},
		"raised by a library":   {"local t\ntable.insert(t, 1)", "script test, line 2: bad argument #1 to insert (table expected, got nil)"},
		"in a function":         {"local function f()\n  return nil .. 'x'\nend\nreturn f()", "script test, line 2: cannot perform concat operation between nil and string"},
		"syntax":                {"local x = = 1", "script test, line 1: syntax error near '='"},
		"end of the script":     {"if true then\n  return 1\n", "script test, line 2: syntax error at the end of the script"},
		"an endless loop":       {"local i = 0\nwhile true do i = 1 end", "script test, line 2: the script was stopped after 200200 steps: it loops, or does too much work for one call"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := run1(t, c.source, map[string]any{})
			if err == nil {
				t.Fatal("got no error")
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEndedContextStopsTheScript(t *testing.T) {
	p, err := Compile("test", "while true do end")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var e *Error
	if _, err := p.Run(ctx, nil, Limits{}); !errors.As(err, &e) || e.Kind != KindDeadline {
		t.Errorf("got %v, want kind Deadline", err)
	}
}

func TestVirtualServiceScriptSaysWhatToDo(t *testing.T) {
	header := []any{map[string]any{"headers": []any{map[string]any{"name": "v", "value": "canary"}}}}
	tcp := map[string]any{"tcp": []any{map[string]any{"route": []any{map[string]any{"destination": map[string]any{"host": "svc-demo"}}}}}}
	regex := virtualService(1)
	regex["http"].([]any)[0].(map[string]any)["match"] = []any{map[string]any{"headers": map[string]any{"v": map[string]any{"regex": ".*"}}}}
	other := virtualService(1)
	other["http"].([]any)[0].(map[string]any)["match"] = []any{map[string]any{"headers": map[string]any{"v": map[string]any{"exact": "x"}}}}
	for name, c := range map[string]struct {
		spec    map[string]any
		weight  int
		matches []any
		service string
		want    string
	}{
		"matches on tcp only":     {tcp, NoWeight, header, "svc-demo", "only http can be matched; use traffic instead of matches"},
		"weight for an unknown":   {virtualService(1), 20, nil, "mocka", "no rule that routes to Service mocka"},
		"matches for an unknown":  {virtualService(1), NoWeight, header, "mocka", "no http rule that routes to Service mocka"},
		"no rules at all":         {map[string]any{"hosts": []any{"*"}}, 20, nil, "svc-demo", "no rule that routes to Service svc-demo"},
		"two conditions, a regex": {regex, NoWeight, header, "svc-demo", "cannot combine two conditions on headers v"},
		"conditions that exclude": {other, NoWeight, header, "svc-demo", "no request would reach the canary"},
		"an empty match":          {virtualService(1), NoWeight, []any{map[string]any{}}, "svc-demo", "has neither path nor headers nor queryParams"},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Spec: c.spec, CanaryWeight: c.weight, Matches: c.matches, StableService: c.service, CanaryService: c.service + "-canary"}
			_, err := builtinProgram(t, "VirtualService").Render(t.Context(), in, Limits{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestVirtualServiceOfAThousandRules(t *testing.T) {
	in := weightInput(1000, 20)
	if _, err := builtinProgram(t, "VirtualService").Render(t.Context(), in, Limits{}); err != nil {
		t.Error(err)
	}
}

// A script written for the first design of the input: it walks
// obj.patchPodMetadata.labels and uses a global variable.
func TestConfigMapScriptThatReadsThePatchedLabels(t *testing.T) {
	const source = `
spec = obj.data.spec --- a global
local canary = {}
canary.labels = {}
canary.name = "canary"
for k, v in pairs(obj.patchPodMetadata.labels) do
    canary.labels[k] = v
end
table.insert(spec.subsets, canary)
return obj.data`
	base := map[string]any{"labels": map[string]any{"version": "base"}, "name": "version-base"}
	in := Input{
		Spec: map[string]any{"subsets": []any{base}}, CanaryWeight: 20, StableService: "mocka", CanaryService: "mocka",
		PatchPodMetadata: map[string]any{"labels": map[string]any{"version": "canary"}},
	}
	for name, p := range map[string]*Program{"from the ConfigMap": compiledFrom(t, source), "built-in": builtinProgram(t, "DestinationRule")} {
		got, err := p.Render(t.Context(), in, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		canary := map[string]any{"labels": map[string]any{"version": "canary"}, "name": "canary"}
		want := Output{Spec: map[string]any{"subsets": []any{base, canary}}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func compiledFrom(t testing.TB, source string) *Program {
	t.Helper()
	p, err := Compile("test", source)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
