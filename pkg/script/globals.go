package script

import (
	lua "github.com/yuin/gopher-lua"
)

// functions makes the host functions of one library. They hold no state, find
// their run through L.Context, and are shared by all runs.
func functions(fs map[string]lua.LGFunction) map[string]*lua.LFunction {
	out := make(map[string]*lua.LFunction, len(fs))
	for name, f := range fs {
		out[name] = host(f)
	}
	return out
}

// noEnv is the environment of the shared functions, which never look at it.
var noEnv = &lua.LTable{Metatable: lua.LNil}

func host(f lua.LGFunction) *lua.LFunction {
	return &lua.LFunction{IsG: true, Env: noEnv, GFunction: f}
}

// The allow-list: a name that is in none of these maps does not exist.
var (
	baseLib   = functions(baseFunctions)
	stringLib = functions(stringFunctions)
	tableLib  = functions(tableFunctions)
	mathLib   = functions(mathFunctions)
	jsonLib   = functions(jsonFunctions)
)

// globalsMark makes globals on first use: most scripts touch a few of them,
// and a state with all of them costs more than the script.
var (
	globalsMark = indexedBy(globalIndex)
	stringMark  = indexedBy(stringIndex)
)

func indexedBy(f lua.LGFunction) *lua.LTable {
	t := &lua.LTable{Metatable: lua.LNil}
	t.RawSetString("__index", host(f))
	return t
}

func openLibraries(L *lua.LState) {
	L.G.Global.Metatable = globalsMark
	L.SetMetatable(lua.LString(""), stringMark)
}

func globalIndex(L *lua.LState) int {
	name, ok := L.Get(2).(lua.LString)
	if !ok {
		return 0
	}
	v := builtin(L, string(name))
	if v == nil {
		return 0
	}
	L.G.Global.RawSetString(string(name), v)
	L.Push(v)
	return 1
}

func builtin(L *lua.LState, name string) lua.LValue {
	if mark, ok := libraryMarks[name]; ok {
		t := L.CreateTable(0, 1)
		t.Metatable = mark
		return t
	}
	if name == "_VERSION" {
		return lua.LString(lua.LuaVersion)
	}
	if f, ok := baseLib[name]; ok {
		return f
	}
	return nil
}

var libraryMarks = map[string]*lua.LTable{
	"string": libraryMark(stringLib, nil),
	"table":  libraryMark(tableLib, nil),
	"math":   libraryMark(mathLib, mathConstants),
	"json":   libraryMark(jsonLib, map[string]lua.LValue{"null": null}),
}

// libraryMark fills a library's table member by member, for the same reason.
func libraryMark(lib map[string]*lua.LFunction, constants map[string]lua.LValue) *lua.LTable {
	return indexedBy(func(L *lua.LState) int {
		name, _ := L.Get(2).(lua.LString)
		var v lua.LValue = lua.LNil
		if f, ok := lib[string(name)]; ok {
			v = f
		} else if c, ok := constants[string(name)]; ok {
			v = c
		}
		if t, ok := L.Get(1).(*lua.LTable); ok && v != lua.LNil {
			t.RawSetString(string(name), v)
		}
		L.Push(v)
		return 1
	})
}

// stringIndex serves s:method(). What the script added to its string table
// counts, as in Lua.
func stringIndex(L *lua.LState) int {
	name, ok := L.Get(2).(lua.LString)
	if !ok {
		return 0
	}
	if t, ok := L.G.Global.RawGetString("string").(*lua.LTable); ok {
		if v := t.RawGetString(string(name)); v != lua.LNil {
			L.Push(v)
			return 1
		}
	}
	if f, ok := stringLib[string(name)]; ok {
		L.Push(f)
		return 1
	}
	return 0
}
