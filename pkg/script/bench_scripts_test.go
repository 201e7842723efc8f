package script_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/script/cases"
)

// BenchmarkScript runs each built-in script on the steps of all its test cases, one
// after the other. It also makes the same calls as the stock engine's users do. One
// operation is one call, from the input to the output. Run it with -benchmem.
func BenchmarkScript(b *testing.B) {
	library, err := os.ReadFile("rollout.lua")
	if err != nil {
		b.Fatal(err)
	}
	for file, calls := range builtinCalls(b) {
		source, err := fs.ReadFile(luaconfiguration.FS, file)
		if err != nil {
			b.Fatal(err)
		}
		dir := path.Dir(file)
		name := path.Base(dir) + "." + path.Dir(dir)
		if dir == "trafficrouting_ingress" {
			name = "Ingress." + strings.TrimSuffix(path.Base(file), ".lua")
		}
		b.Run(name, func(b *testing.B) {
			b.Run("sluice", func(b *testing.B) { benchSluice(b, file, string(source), calls) })
			b.Run("stock", func(b *testing.B) {
				text := string(source)
				if strings.Contains(text, "rollout.") {
					text = stockLibrary(string(library)) + text
				}
				benchStock(b, text, calls)
			})
		})
	}
}

// builtinCalls returns the inputs of each script in its test cases, by the path of
// the script.
func builtinCalls(b *testing.B) map[string][]map[string]any {
	b.Helper()
	routes, err := cases.LoadAll(luaconfiguration.FS)
	if err != nil {
		b.Fatal(err)
	}
	ingresses, err := cases.LoadIngressCases(luaconfiguration.FS)
	if err != nil {
		b.Fatal(err)
	}
	calls := map[string][]map[string]any{}
	for _, c := range slices.Concat(routes, ingresses) {
		if c.Refused != "" {
			continue
		}
		for _, step := range c.Steps {
			object := step.LuaObject()
			if c.Class != "" {
				object = step.IngressObject()
			}
			calls[c.Script] = append(calls[c.Script], object)
		}
	}
	return calls
}

// stockLibrary is the global rollout for an engine without it: each call makes all
// of the library.
func stockLibrary(source string) string {
	const copied = "rollout = {} local copy = function(t) local r = {} for k, v in pairs(t) do r[k] = v end return r end rollout.copy = copy\n"
	var all strings.Builder
	all.WriteString(copied)
	for part := range strings.SplitSeq(source, "\n---\n") {
		all.WriteString("do\n" + part + "\nend\n")
	}
	return all.String()
}

func benchSluice(b *testing.B, file, source string, calls []map[string]any) {
	p, err := script.Compile(file, source)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := p.Run(b.Context(), calls[i%len(calls)], script.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func benchStock(b *testing.B, source string, calls []map[string]any) {
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := stockCall(b.Context(), source, calls[i%len(calls)]); err != nil {
			b.Fatal(err)
		}
	}
}

// stockCall makes a call without a library of compiled scripts: a state with its
// libraries, the conversion, the parse, the run under a timeout, and the result by
// way of JSON.
func stockCall(ctx context.Context, source string, obj map[string]any) error {
	L := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer L.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.MathLibName: lua.OpenMath, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString,
	} {
		if err := L.CallByParam(lua.P{Fn: L.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	L.SetContext(ctx)
	L.SetGlobal("obj", toStock(L, obj))
	if err := L.DoString(source); err != nil {
		return err
	}
	text, err := json.Marshal(fromStock(L.Get(-1)))
	if err != nil {
		return err
	}
	var out any
	return json.Unmarshal(text, &out)
}

func toStock(L *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case bool:
		return lua.LBool(v)
	case string:
		return lua.LString(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	case json.Number:
		n, _ := v.Float64()
		return lua.LNumber(n)
	case []any:
		t := L.CreateTable(len(v), 0)
		for _, e := range v {
			t.Append(toStock(L, e))
		}
		return t
	case map[string]string:
		t := L.CreateTable(0, len(v))
		for k, e := range v {
			t.RawSetString(k, lua.LString(e))
		}
		return t
	case map[string]any:
		t := L.CreateTable(0, len(v))
		for k, e := range v {
			t.RawSetString(k, toStock(L, e))
		}
		return t
	}
	return lua.LNil
}

func fromStock(v lua.LValue) any {
	switch v := v.(type) {
	case lua.LBool:
		return bool(v)
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return float64(v)
	case *lua.LTable:
		if n := v.Len(); n > 0 {
			list := make([]any, 0, n)
			v.ForEach(func(_, e lua.LValue) { list = append(list, fromStock(e)) })
			return list
		}
		object := map[string]any{}
		v.ForEach(func(k, e lua.LValue) { object[k.String()] = fromStock(e) })
		return object
	}
	return nil
}
