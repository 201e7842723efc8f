package script

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
)

//go:embed rollout.lua
var rolloutSource string

// rolloutParts are the parts of the global rollout, by each name that they define.
var rolloutParts = sync.OnceValues(func() (map[string]*Program, error) {
	const known = "local copy, rollout = ... "
	parts := map[string]*Program{}
	line := 1
	for text := range strings.SplitSeq(rolloutSource, "\n---\n") {
		program, err := Compile("rollout.lua", strings.Repeat("\n", line-1)+known+text)
		if err != nil {
			return nil, err
		}
		for _, found := range rolloutNames.FindAllStringSubmatch(text, -1) {
			parts[found[1]] = program
		}
		line += strings.Count(text, "\n") + 2
	}
	return parts, nil
})

var rolloutNames = regexp.MustCompile(`(?m)^(?:function )?rollout\.(\w+)(?:\(| = )`)

var tableCopyHost = hostFunction(tableCopy)

// openRollout makes the global rollout, in the state that first names it. Its
// functions are Lua, and count like the script's own.
func openRollout(L *lua.LState) lua.LValue {
	made := L.CreateTable(0, 4)
	made.RawSetString("copy", tableCopyHost)
	made.Metatable = rolloutMark
	return made
}

var rolloutMark = indexedBy(hostFunction(openRolloutPart))

// openRolloutPart runs the part of the global rollout that defines a name.
func openRolloutPart(L *lua.LState) int {
	rollout := L.CheckTable(1)
	parts, err := rolloutParts()
	if err != nil {
		L.RaiseError("%s", err.Error())
	}
	part, ok := parts[lua.LVAsString(L.Get(2))]
	if !ok {
		return 0
	}
	L.Push(L.NewFunctionFromProto(part.proto))
	L.Push(tableCopyHost)
	L.Push(rollout)
	L.Call(2, 0)
	L.Push(rollout.RawGet(L.Get(2)))
	return 1
}

// tableCopy copies one level of a table, and its JSON details: whether it is a list,
// its null members, and numbers that a float64 does not hold.
func tableCopy(L *lua.LState) int {
	from := L.CheckTable(1)
	r := runOf(L)
	n, named := 0, 0
	for k, _ := from.Next(lua.LNil); k != lua.LNil; k, _ = from.Next(k) {
		n++
		if k.Type() == lua.LTString {
			named++
		}
	}
	r.chargeSteps(L, n+r.tableWalk.dead[from]+r.named)
	r.chargeBytes(L, tablePrice+n*slotPrice)
	// Most scripts add one or two names to a copy, and an unsized table makes room
	// for 32.
	to := L.CreateTable(n-named, named+2)
	to.Metatable = from.Metatable
	for k, v := from.Next(lua.LNil); k != lua.LNil; k, v = from.Next(k) {
		to.RawSet(k, v)
		at, into := slot{table: from}, slot{table: to}
		switch k := k.(type) {
		case lua.LString:
			at.name, into.name = string(k), string(k)
		case lua.LNumber:
			at.index, into.index = int(k), int(k)
		}
		if exact, ok := r.exact[at]; ok {
			r.exact[into] = exact
		}
	}
	if nulls, ok := r.nulls[from]; ok {
		r.nulls[to] = slices.Clone(nulls)
	}
	L.Push(to)
	return 1
}
