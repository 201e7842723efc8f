package script

import (
	lua "github.com/yuin/gopher-lua"
)

// hostFunctions makes the host functions of one library. They hold no state, find
// their run through L.Context, and are shared by all runs.
func hostFunctions(fs map[string]lua.LGFunction) map[string]*lua.LFunction {
	out := make(map[string]*lua.LFunction, len(fs))
	for name, f := range fs {
		out[name] = hostFunction(f)
	}
	return out
}

// noEnv is the environment of the shared functions, which never read it.
var noEnv = &lua.LTable{Metatable: lua.LNil}

func hostFunction(f lua.LGFunction) *lua.LFunction {
	return &lua.LFunction{IsG: true, Env: noEnv, GFunction: f}
}

// The allow-list: a name that is in none of these maps does not exist.
var (
	baseLib   = hostFunctions(baseFunctions)
	stringLib = hostFunctions(stringFunctions)
	tableLib  = hostFunctions(tableFunctions)
	mathLib   = hostFunctions(mathFunctions)
	jsonLib   = hostFunctions(jsonFunctions)
)

// A state begins with an empty table of globals. Its metatable leads to the
// allow-list, in tables that all runs share: most scripts use a few names, and a
// state with all of them costs more than the script. Scripts cannot reach a
// metatable, and their assignments go to the table of the state. So no script writes
// the shared tables.
var (
	globalsMark = indexedBy(globalsTable())
	stringMark  = indexedBy(hostFunction(stringIndex))
)

func indexedBy(index lua.LValue) *lua.LTable {
	t := &lua.LTable{Metatable: lua.LNil}
	t.RawSetString("__index", index)
	return t
}

func openLibraries(L *lua.LState) {
	L.G.Global.Metatable = globalsMark
	L.SetMetatable(lua.LString(""), stringMark)
}

func globalsTable() *lua.LTable {
	t := tableOf(baseLib, map[string]lua.LValue{"_VERSION": lua.LString(lua.LuaVersion)})
	t.Metatable = indexedBy(hostFunction(openLibrary))
	return t
}

func tableOf(lib map[string]*lua.LFunction, constants map[string]lua.LValue) *lua.LTable {
	t := &lua.LTable{Metatable: lua.LNil}
	for name, f := range lib {
		t.RawSetString(name, f)
	}
	for name, v := range constants {
		t.RawSetString(name, v)
	}
	return t
}

// openLibrary serves the first use of string, table, math or json: the script gets
// an empty table of its own, in front of the shared one. The engine makes the global
// rollout again for each run that names it.
func openLibrary(L *lua.LState) int {
	name, ok := L.Get(2).(lua.LString)
	if !ok {
		return 0
	}
	var t lua.LValue
	if mark, ok := libraryMarks[string(name)]; ok {
		own := L.CreateTable(0, 1)
		own.Metatable = mark
		t = own
	} else if name == "rollout" {
		t = openRollout(L)
	} else {
		return 0
	}
	L.G.Global.RawSetString(string(name), t)
	L.Push(t)
	return 1
}

var libraryMarks = map[string]*lua.LTable{
	"string": indexedBy(tableOf(stringLib, nil)),
	"table":  indexedBy(tableOf(tableLib, nil)),
	"math":   indexedBy(tableOf(mathLib, mathConstants)),
	"json":   indexedBy(tableOf(jsonLib, map[string]lua.LValue{"null": null})),
}

// stringIndex serves s:method(). Functions that the script added to its string table
// count, as in Lua.
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
