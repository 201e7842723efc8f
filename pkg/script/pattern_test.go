package script

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua"
)

// patternProbe shows what all functions that take a pattern make of it.
const patternProbe = `
local out = {}
for i, v in ipairs({pcall(string.find, obj.s, obj.p)}) do out[i] = tostring(v) end
local replaced, count = string.gsub(obj.s, obj.p, "<%0>")
table.insert(out, replaced)
table.insert(out, tostring(count))
for a, b in string.gmatch(obj.s, obj.p) do table.insert(out, tostring(a) .. "," .. tostring(b)) end
table.insert(out, tostring((string.match(obj.s, obj.p, 2))))
return table.concat(out, "|")`

// The matcher is ours because the engine's cannot be metered. Scripts were
// written for the engine's, so both must agree wherever the engine's ends.
func TestMatcherAgreesWithTheEnginesOwn(t *testing.T) {
	stock := lua.NewState()
	defer stock.Close()
	probe, err := stock.LoadString(patternProbe)
	if err != nil {
		t.Fatal(err)
	}
	ours := compiledFrom(t, patternProbe)
	random := rand.New(rand.NewPCG(1, 2))
	for range 4000 {
		text, pattern := randomText(random), randomPattern(random)
		got, err := ours.Run(t.Context(), map[string]any{"s": text, "p": pattern}, unhurried)
		if err != nil {
			t.Fatal(err)
		}
		obj := stock.NewTable()
		obj.RawSetString("s", lua.LString(text))
		obj.RawSetString("p", lua.LString(pattern))
		stock.SetGlobal("obj", obj)
		stock.Push(probe)
		stock.Call(0, 1)
		want := stock.Get(-1).String()
		stock.Pop(1)
		if diff := cmp.Diff(want, fmt.Sprint(got)); diff != "" {
			t.Errorf("pattern %q on %q: %s", pattern, text, diff)
		}
	}
}

func randomText(r *rand.Rand) string {
	s := make([]byte, r.IntN(10))
	for i := range s {
		s[i] = "aab1 .x_()"[r.IntN(10)]
	}
	return string(s)
}

func randomPattern(r *rand.Rand) string {
	atoms := []string{"a", "b", ".", "%a", "%d", "[ab]", "[^a]", "%w", "%S", "x", "%.", "[a-c]", "[%w_]", "%W"}
	repeats := []string{"", "", "", "*", "+", "-", "?"}
	var b strings.Builder
	if r.IntN(8) == 0 {
		b.WriteByte('^')
	}
	open := false
	for range 1 + r.IntN(5) {
		if !open && r.IntN(4) == 0 {
			b.WriteByte('(')
			open = true
		}
		if r.IntN(12) == 0 {
			b.WriteString("%b()")
			continue
		}
		b.WriteString(atoms[r.IntN(len(atoms))] + repeats[r.IntN(len(repeats))])
		if open && r.IntN(2) == 0 {
			b.WriteByte(')')
			open = false
		}
	}
	if open {
		b.WriteByte(')')
	}
	if r.IntN(8) == 0 {
		b.WriteByte('$')
	}
	return b.String()
}
