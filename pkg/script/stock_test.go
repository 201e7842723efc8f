package script

import (
	"encoding/hex"
	"fmt"
	"maps"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua"
)

// The functions of the library replace the engine's own, which cannot be metered.
// Users wrote scripts for the engine's own functions, so both must agree. Each probe
// is a script that calls functions through call, which records their results. The
// test runs the probe here and in a stock state. Where the stock engine differs from
// Lua, this engine follows Lua: TestWhereTheStockEngineIsNotLua lists these places.
// An interpreter of Lua 5.1, if installed, decides about new ones.
//
// Probes hide these intended differences:
//   - the wording of errors; both sides must only have an error
//   - tostring of tables and functions shows no address
//   - a result or string beyond a budget is an error here
const probeHead = `
local out, calls, n = {}, 0, 0
local function note(v)
	n = n + 1
	if v ~= v then v = "NaN" elseif v == 1/0 then v = "inf" elseif v == -1/0 then v = "-inf"
	elseif type(v) == "table" or type(v) == "function" then v = type(v)
	elseif v == 0 then v = 0
	elseif v == nil then v = "nil" end
	out[calls .. "." .. n] = v
end
local function results(ok, ...)
	calls, n = calls + 1, 0
	if not ok then return note("error") end
	note(select("#", ...))
	for i = 1, select("#", ...) do note((select(i, ...))) end
end
local function call(f, ...) return results(pcall(f, ...)) end
`

// probe runs the script, which sees the members of in as globals of obj, on
// both engines and compares.
func probe(t *testing.T, body string, in map[string]any) {
	t.Helper()
	p, err := Compile("probe", probeHead+body+"\nreturn out")
	if err != nil {
		t.Fatal(err)
	}
	result, err := p.Run(t.Context(), in, unhurried)
	if e, ok := err.(*Error); ok && (e.Kind == KindSteps || e.Kind == KindBytes || strings.Contains(e.Message, "pattern too complex")) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for k, v := range result.(map[string]any) {
		got[k] = shown(v)
	}
	want := stockProbe(t, body, in)
	if cmp.Equal(want, got) {
		return
	}
	judge := lua51Probe(t, body, in)
	if judge == nil {
		t.Skip("ours differs from the stock engine here, and there is no lua5.1 on this machine that could tell which of them is right")
	}
	for call, real := range byCall(judge) {
		if cmp.Equal(real, byCall(got)[call]) {
			maps.DeleteFunc(want, func(k, _ string) bool { return strings.HasPrefix(k, call+".") })
			maps.Copy(want, real)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("on %#v (-stock +ours):\n%s", in, diff)
	}
}

// byCall groups the notes of a probe by the call that wrote them.
func byCall(notes map[string]string) map[string]map[string]string {
	out := map[string]map[string]string{}
	for k, v := range notes {
		call, _, _ := strings.Cut(k, ".")
		if out[call] == nil {
			out[call] = map[string]string{}
		}
		out[call][k] = v
	}
	return out
}

// lua51Probe runs the probe in an interpreter of Lua 5.1; nil if none is installed.
func lua51Probe(t *testing.T, body string, in map[string]any) map[string]string {
	t.Helper()
	path, err := exec.LookPath("lua5.1")
	if err != nil {
		return nil
	}
	var source strings.Builder
	source.WriteString("obj = {}\n")
	for k, v := range in {
		literal := fmt.Sprint(v)
		if s, ok := v.(string); ok {
			literal = `"`
			for _, c := range []byte(s) {
				literal += fmt.Sprintf(`\%03d`, c)
			}
			literal += `"`
		}
		fmt.Fprintf(&source, "obj[%q] = %s\n", k, literal)
	}
	source.WriteString(probeHead + body + `
for k, v in pairs(out) do
	local s = type(v) == "number" and string.format("%.17g", v) or tostring(v)
	print(k, type(v), (s:gsub(".", function(c) return string.format("%02x", c:byte()) end)))
end`)
	cmd := exec.CommandContext(t.Context(), path, "-")
	cmd.Stdin = strings.NewReader(source.String())
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("Lua 5.1: %v: %s", err, text)
		return nil
	}
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		b, _ := hex.DecodeString(parts[2])
		switch parts[1] {
		case "number":
			n, _ := strconv.ParseFloat(string(b), 64)
			out[parts[0]] = shown(n)
		case "boolean":
			out[parts[0]] = shown(string(b) == "true")
		default:
			out[parts[0]] = shown(string(b))
		}
	}
	return out
}

func stockProbe(t *testing.T, body string, in map[string]any) map[string]string {
	t.Helper()
	L := lua.NewState()
	defer L.Close()
	obj := L.NewTable()
	for k, v := range in {
		switch v := v.(type) {
		case string:
			obj.RawSetString(k, lua.LString(v))
		case int64:
			obj.RawSetString(k, lua.LNumber(v))
		case float64:
			obj.RawSetString(k, lua.LNumber(v))
		}
	}
	L.SetGlobal("obj", obj)
	if err := L.DoString(probeHead + body + "\nreturn out"); err != nil {
		t.Fatalf("the stock engine: %v", err)
	}
	want := map[string]string{}
	L.Get(-1).(*lua.LTable).ForEach(func(k, v lua.LValue) {
		switch v := v.(type) {
		case lua.LNumber:
			want[k.String()] = shown(float64(v))
		case lua.LBool:
			want[k.String()] = shown(bool(v))
		default:
			want[k.String()] = shown(v.String())
		}
	})
	return want
}

func shown(v any) string {
	if n, ok := v.(int64); ok {
		v = float64(n)
	}
	return fmt.Sprintf("%T %#v", v, v)
}
