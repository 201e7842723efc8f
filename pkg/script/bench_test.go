package script

import (
	"io/fs"
	"testing"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
)

func builtinProgram(t testing.TB, kind string) *Program {
	t.Helper()
	file := "networking.istio.io/" + kind + "/trafficRouting.lua"
	text, err := fs.ReadFile(luaconfiguration.FS, file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Compile(file, string(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func virtualService(rules int) map[string]any {
	http := []any{}
	for range rules {
		http = append(http, map[string]any{"route": []any{map[string]any{"destination": map[string]any{"host": "svc-demo"}}}})
	}
	return map[string]any{"hosts": []any{"*"}, "gateways": []any{"nginx-gateway"}, "http": http}
}

func weightInput(rules, weight int) Input {
	return Input{
		Spec: virtualService(rules), CanaryWeight: weight,
		StableService: "svc-demo", CanaryService: "svc-demo-canary", Namespace: "shop",
	}
}

func benchInputs() map[string]Input {
	matches := weightInput(1, NoWeight)
	matches.Matches = []any{
		map[string]any{"headers": []any{map[string]any{"type": "Exact", "name": "user-agent", "value": "pc"}}},
		map[string]any{"headers": []any{map[string]any{"type": "RegularExpression", "name": "name", "value": ".*demo"}}},
	}
	return map[string]Input{"weight": weightInput(1, 20), "matches": matches}
}

// The budget of one call is 0.1 ms and 40 KB.
func BenchmarkVirtualService(b *testing.B) {
	p := builtinProgram(b, "VirtualService")
	for name, in := range benchInputs() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Render(b.Context(), in, Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEmptyScript(b *testing.B) {
	p, err := Compile("empty", "return obj")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Run(b.Context(), nil, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
