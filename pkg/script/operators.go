package script

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// Names of the host functions that the rewriter calls: string constants, for
// which bind puts the functions. Sources that spell such a string are refused.
const (
	opPrefix   = "\x00sluice:"
	opConcat   = opPrefix + "concat"   // a..b..c
	opTable    = opPrefix + "table"    // {...}
	opVararg   = opPrefix + "vararg"   // ...
	opStore    = opPrefix + "store"    // t[k] = v
	opKey      = opPrefix + "key"      // the k of {[k]=v}
	opLength   = opPrefix + "length"   // #t
	opWeigh    = opPrefix + "weigh"    // an operand whose cost depends on its length
	opFunction = opPrefix + "function" // function() end
)

var operators = functions(map[string]lua.LGFunction{
	opConcat: concat, opTable: constructed, opVararg: varargs, opStore: store, opKey: computedKey,
	opLength: lengthOf, opWeigh: weigh, opFunction: created,
})

// bind puts the operators in the place of their names, once, before the
// program is shared.
func bind(proto *lua.FunctionProto) {
	for i, c := range proto.Constants {
		if name, ok := c.(lua.LString); ok && strings.HasPrefix(string(name), opPrefix) {
			proto.Constants[i] = operators[string(name)]
		}
	}
	for _, p := range proto.FunctionPrototypes {
		bind(p)
	}
}

// weigh pays for a long string before one instruction compares it, reads it as
// a number, or hashes it to look up a key.
func weigh(L *lua.LState) int {
	if s, ok := L.Get(1).(lua.LString); ok {
		runOf(L).weigh(L, s)
	}
	return 1
}

func (r *run) weigh(L *lua.LState, s lua.LString) {
	const short = 64
	if len(s) > short {
		r.scan(L, len(s))
	}
}

// created pays for a function: for each variable that it captures the engine
// makes a cell, after a search through the cells that are open.
func created(L *lua.LState) int {
	const perCapture, stepsPerCapture = 112, 8
	r := runOf(L)
	n := int(L.Get(1).(*lua.LFunction).Proto.NumUpvalues)
	r.alloc(L, 128+n*perCapture)
	r.work(L, n*stepsPerCapture)
	return 1
}

func concat(L *lua.LState) int {
	n := L.GetTop()
	parts := make([]string, n)
	size := 0
	for i := n; i >= 1; i-- {
		v := L.Get(i)
		if !lua.LVCanConvToString(v) {
			left := L.Get(max(i-1, 1))
			right := L.Get(max(i, 2))
			L.RaiseError("cannot perform concat operation between %s and %s", left.Type(), right.Type())
		}
		parts[i-1] = v.String()
		size += len(parts[i-1])
	}
	runOf(L).text(L, size)
	L.Push(lua.LString(strings.Join(parts, "")))
	return 1
}

// constructed pays for a table. The empty one is made here: left to itself, the
// engine prepares each for 32 members.
func constructed(L *lua.LState) int {
	runOf(L).alloc(L, tablePrice)
	if L.GetTop() == 0 {
		L.Push(L.CreateTable(1, 1))
	} else if n := L.Get(1).(*lua.LTable).Len(); n > 0 {
		runOf(L).alloc(L, n*slotPrice)
	}
	return 1
}

// varargs pays for values that one instruction copies.
func varargs(L *lua.LState) int {
	const copiedPerStep = 16
	n := tooMany(L, L.GetTop())
	runOf(L).work(L, n/copiedPerStep)
	return n
}

// tooMany refuses more values than a call may pass or return, and pays for many:
// a constructor around the call keeps them, be they nil.
func tooMany(L *lua.LState, n int) int {
	const few = 16
	if n > maxValues {
		L.RaiseError("too many values: a call may pass or return at most %d", maxValues)
	}
	if n > few {
		runOf(L).alloc(L, n*slotPrice)
	}
	return n
}

// store is t[k] = v. A key far beyond the end makes the engine fill the gap, so
// the gap is paid for first.
func store(L *lua.LState) int {
	t, ok := L.Get(1).(*lua.LTable)
	if !ok {
		L.RaiseError("attempt to index a non-table object(%s) with key '%s'", L.Get(1).Type(), shorten(printed(L.Get(2))))
	}
	key, value := L.Get(2), L.Get(3)
	switch k := key.(type) {
	case *lua.LNilType:
		L.RaiseError("table index is nil")
	case lua.LString:
		runOf(L).weigh(L, k)
	case lua.LNumber:
		if k != k {
			L.RaiseError("table index is NaN")
		}
		reserve(L, t, k)
	}
	if value == lua.LNil {
		runOf(L).removed(t, key)
	}
	t.RawSet(key, value)
	return 0
}

func reserve(L *lua.LState, t *lua.LTable, key lua.LNumber) {
	const near = 64
	if key > near && key < maxArray {
		if gap := int(key) - length(t); gap > near {
			runOf(L).alloc(L, gap*slotPrice)
			runOf(L).scan(L, gap*slotPrice)
		}
	}
}

func lengthOf(L *lua.LState) int {
	switch v := L.Get(1).(type) {
	case lua.LString:
		L.Push(lua.LNumber(len(v)))
	case *lua.LTable:
		L.Push(lua.LNumber(length(v)))
	default:
		L.RaiseError("attempt to get length of a %s value", v.Type())
	}
	return 1
}

// length is #t. The engine looks for the end from the last slot that was ever
// used, each time; here the empty slots at the end are dropped on the way, so
// that asking again costs nothing.
func length(t *lua.LTable) int {
	n := t.Len()
	if n == 0 {
		t.RawSetInt(1, lua.LTrue)
	}
	last := t.Remove(-1)
	for last == lua.LNil {
		last = t.Remove(-1)
	}
	if n > 0 {
		t.RawSetInt(n, last)
	}
	return n
}

func computedKey(L *lua.LState) int {
	switch k := L.Get(1).(type) {
	case lua.LString:
		runOf(L).weigh(L, k)
	case lua.LNumber:
		if k > 0 && k < maxArray {
			runOf(L).alloc(L, int(k)*slotPrice)
			runOf(L).scan(L, int(k)*slotPrice)
		}
	}
	return 1
}
