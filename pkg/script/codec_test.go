package script

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// identity returns the output of a script that changes nothing.
func identity(t testing.TB, v any) (any, error) {
	t.Helper()
	p, err := Compile("identity", "return obj")
	if err != nil {
		t.Fatal(err)
	}
	return p.Run(t.Context(), v, Limits{})
}

func decode(t testing.TB, text string) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestScriptThatChangesNothingKeepsTheText(t *testing.T) {
	for name, text := range map[string]string{
		"empty list and object":         `{"a":[],"b":{},"c":[[],{}],"d":{"e":[]}}`,
		"null members":                  `{"a":null,"b":{"c":null},"d":1}`,
		"null elements":                 `{"a":[null],"b":[1,null,2],"c":[null,null]}`,
		"64-bit integers":               `{"a":9223372036854775807,"b":-9223372036854775808,"c":[9007199254740993,9007199254740992]}`,
		"integers that share a float64": `[9007199254740993,9007199254740992,{"x":9007199254740993}]`,
		"numbers":                       `{"a":0.1,"b":1e+21,"c":1E2,"d":1.50,"e":-0,"f":123456789012345678901234567890,"g":-1.5e-7,"h":5e-324}`,
		"text":                          `{"a":"\u0000","b":"ä\"\\","c":"","":"empty key"}`,
		"keys that look like numbers":   `{"1":"a","2":"b"}`,
		"what OpenKruise's codec loses": `{"a":[],"b":{},"big":9223372036854775807,"c":1,"d":0.1,"e":12345678901234567,"f":null,"g":1e21,"h":[null,1],"i":[1,null,2]}`,
		"a bare number":                 `9007199254740993`,
		"a bare null":                   `null`,
		"a bare list":                   `[]`,
	} {
		t.Run(name, func(t *testing.T) {
			want := decode(t, text)
			got, err := identity(t, want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(marshal(t, want), marshal(t, got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func marshal(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestValuesAfterScriptsMovedThem(t *testing.T) {
	for name, c := range map[string]struct {
		source, input string
		want          any
	}{
		"a large integer moves to another table": {`return {copy = obj.n}`, `{"n":9007199254740993}`, map[string]any{"copy": int64(9007199254740993)}},
		"a large integer that was changed":       {`obj.n = obj.n - 1e18 return obj.n < 0`, `{"n":9007199254740993}`, true},
		"a null that was set":                    {`obj.a = 1 return obj`, `{"a":null}`, map[string]any{"a": int64(1)}},
		"a null is nil to the script":            {`return obj.a == nil`, `{"a":null}`, true},
		"a null element does not end ipairs":     {`local n = 0 for _ in ipairs(obj) do n = n + 1 end return {n, #obj}`, `[1,null,2]`, []any{int64(3), int64(3)}},
		"a list that was emptied":                {`table.remove(obj.a) return obj`, `{"a":[1]}`, map[string]any{"a": []any{}}},
		"an object that was emptied":             {`obj.a.b = nil return obj`, `{"a":{"b":1}}`, map[string]any{"a": map[string]any{}}},
		"an empty list that was filled":          {`table.insert(obj, "x") return obj`, `[]`, []any{"x"}},
		"an empty list that became an object":    {`obj.a = 1 return obj`, `[]`, map[string]any{"a": int64(1)}},
		"keys in sorted order":                   {`local s = "" for k in pairs(obj) do s = s .. k end return s`, `{"c":1,"a":1,"b":1}`, "abc"},
		"walk that clears and measures":          {`local n = 0 for k in pairs(obj) do obj[k] = nil n = n + 1 + #obj * 0 end return n`, `[1,2,3]`, int64(3)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := run1(t, c.source, decode(t, c.input))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestInputsThatLuaCannotHold(t *testing.T) {
	deep := any("x")
	for range 100 {
		deep = []any{deep}
	}
	for name, c := range map[string]struct {
		input any
		want  string
	}{
		"NaN":              {math.NaN(), "which JSON cannot express"},
		"a struct":         {struct{}{}, "struct {}, which is no JSON value"},
		"deep nesting":     {deep, "deeper than 64 levels"},
		"a huge list":      {make([]any, 20000), "array of 20000 elements"},
		"a number too big": {json.Number("1e999"), "no number that a script can handle"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := identity(t, c.input)
			e, ok := err.(*Error)
			if !ok || e.Kind != KindInput || !strings.Contains(e.Message, c.want) {
				t.Errorf("got %v, want kind Input with %q", err, c.want)
			}
		})
	}
}

func FuzzCodecRoundTrip(f *testing.F) {
	for _, s := range []string{`{}`, `[]`, `[null,{"a":[]}]`, `{"a":9007199254740993,"b":1.0,"c":-0.0,"d":"\u0000"}`, `1e-400`} {
		f.Add([]byte(s))
	}
	throughText := compiledFrom(f, "return json.decode(json.encode(obj))")
	f.Fuzz(func(t *testing.T, text []byte) {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		var v any
		if dec.Decode(&v) != nil {
			return
		}
		got, err := identity(t, v)
		if err != nil {
			if e, ok := err.(*Error); !ok || e.Kind != KindInput && e.Kind != KindOutput {
				t.Fatal(err)
			}
			return
		}
		if diff := cmp.Diff(marshal(t, v), marshal(t, got)); diff != "" {
			t.Error(diff)
		}
		got, err = throughText.Run(t.Context(), v, unhurried)
		if err != nil {
			t.Fatalf("by way of json.encode: %v", err)
		}
		if diff := cmp.Diff(marshal(t, v), marshal(t, got)); diff != "" {
			t.Errorf("by way of json.encode:\n%s", diff)
		}
	})
}

func FuzzCompileAndRun(f *testing.F) {
	for _, s := range []string{
		`return obj`, `local t = {} for i = 1, 10 do t[i] = i end return t`, `return ("x"):rep(3):gsub("x", "%0")`,
		`return string.format("%5.2f %q", 1, "a")`, `error({})`, `return pcall(error, "x")`, `return {...}`,
		`local function f(...) return select(2, ...) end return f(1, 2)`, `return json.decode(json.encode(obj))`,
		`table.sort(obj.l) return table.concat(obj.l, ",")`, `for k, v in pairs(obj) do obj[k] = nil end return #obj`,
	} {
		f.Add(s)
	}
	if flag.Lookup("test.fuzz").Value.String() != "" { // otherwise they have a test of their own
		for _, h := range hostileScripts(f) {
			f.Add(h.source)
		}
	}
	f.Fuzz(func(t *testing.T, source string) {
		p, err := Compile("fuzz", source)
		if err == nil {
			_, err = p.Run(t.Context(), map[string]any{"l": []any{"b", "a", nil}, "n": int64(1) << 60}, unhurried)
		}
		if e, ok := err.(*Error); err != nil && (!ok || e.Kind == KindDeadline || strings.Contains(e.Message, "engine failed")) {
			t.Fatalf("%#v", err)
		}
	})
}
