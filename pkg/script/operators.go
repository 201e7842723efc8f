package script

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// Names of the host functions that the rewriter calls. They are string constants,
// which bindOperators replaces by the functions. A source with such a string is
// refused.
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

var operators = hostFunctions(map[string]lua.LGFunction{
	opConcat: concatValues, opTable: chargeTable, opVararg: chargeVarargs, opStore: storeMember, opKey: computedKey,
	opLength: lengthOf, opWeigh: chargeOperand, opFunction: chargeFunction,
})

// bindOperators replaces the names of the operators by the operators, once, before
// goroutines share the program.
func bindOperators(proto *lua.FunctionProto) {
	for i, c := range proto.Constants {
		if name, ok := c.(lua.LString); ok && strings.HasPrefix(string(name), opPrefix) {
			proto.Constants[i] = operators[string(name)]
		}
	}
	for _, p := range proto.FunctionPrototypes {
		bindOperators(p)
	}
}

// chargeOperand charges for a long string before one instruction compares it, reads
// it as a number, or hashes it to look up a key.
func chargeOperand(L *lua.LState) int {
	if s, ok := L.Get(1).(lua.LString); ok {
		runOf(L).chargeLongString(L, s)
	}
	return 1
}

func (r *run) chargeLongString(L *lua.LState, s lua.LString) {
	const short = 64
	if len(s) > short {
		r.chargeScan(L, len(s))
	}
}

// chargeFunction charges for a function. For each captured variable the engine
// searches the open cells, and makes a cell.
func chargeFunction(L *lua.LState) int {
	const perCapture, stepsPerCapture = 112, 8
	r := runOf(L)
	n := int(L.Get(1).(*lua.LFunction).Proto.NumUpvalues)
	r.chargeBytes(L, 128+n*perCapture)
	r.chargeSteps(L, n*stepsPerCapture)
	return 1
}

func concatValues(L *lua.LState) int {
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
	runOf(L).chargeString(L, size)
	L.Push(lua.LString(strings.Join(parts, "")))
	return 1
}

// chargeTable charges for a table. It makes empty tables itself, because the engine
// would prepare each for 32 members.
func chargeTable(L *lua.LState) int {
	runOf(L).chargeBytes(L, tablePrice)
	if L.GetTop() == 0 {
		L.Push(L.CreateTable(1, 1))
	} else if n := L.Get(1).(*lua.LTable).Len(); n > 0 {
		runOf(L).chargeBytes(L, n*slotPrice)
	}
	return 1
}

// chargeVarargs charges for values that one instruction copies.
func chargeVarargs(L *lua.LState) int {
	const copiedPerStep = 16
	n := tooMany(L, L.GetTop())
	runOf(L).chargeSteps(L, n/copiedPerStep)
	return n
}

// tooMany refuses more values than a call may pass or return, and charges for many:
// a constructor around the call keeps all of them, even nil.
func tooMany(L *lua.LState, n int) int {
	const few = 16
	if n > maxValues {
		L.RaiseError("too many values: a call may pass or return at most %d", maxValues)
	}
	if n > few {
		runOf(L).chargeBytes(L, n*slotPrice)
	}
	return n
}

// storeMember is t[k] = v. A key far beyond the end makes the engine fill the gap,
// so storeMember charges for the gap first.
func storeMember(L *lua.LState) int {
	t, ok := L.Get(1).(*lua.LTable)
	if !ok {
		L.RaiseError("attempt to index a non-table object(%s) with key '%s'", L.Get(1).Type(), shorten(displayString(L.Get(2))))
	}
	key, value := L.Get(2), L.Get(3)
	switch k := key.(type) {
	case *lua.LNilType:
		L.RaiseError("table index is nil")
	case lua.LString:
		runOf(L).chargeLongString(L, k)
	case lua.LNumber:
		if k != k {
			L.RaiseError("table index is NaN")
		}
		chargeGap(L, t, k)
	}
	if value == lua.LNil {
		runOf(L).countRemoved(t, key)
	}
	t.RawSet(key, value)
	return 0
}

func chargeGap(L *lua.LState, t *lua.LTable, key lua.LNumber) {
	const near = 64
	if key > near && key < maxArray {
		if gap := int(key) - tableLength(t); gap > near {
			runOf(L).chargeBytes(L, gap*slotPrice)
			runOf(L).chargeScan(L, gap*slotPrice)
		}
	}
}

func lengthOf(L *lua.LState) int {
	switch v := L.Get(1).(type) {
	case lua.LString:
		L.Push(lua.LNumber(len(v)))
	case *lua.LTable:
		L.Push(lua.LNumber(tableLength(v)))
	default:
		L.RaiseError("attempt to get length of a %s value", v.Type())
	}
	return 1
}

// tableLength is #t. The engine searches the end each time, from the last slot that
// was ever used. tableLength drops the empty slots at the end, so that the next
// search costs nothing.
func tableLength(t *lua.LTable) int {
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
		runOf(L).chargeLongString(L, k)
	case lua.LNumber:
		if k > 0 && k < maxArray {
			runOf(L).chargeBytes(L, int(k)*slotPrice)
			runOf(L).chargeScan(L, int(k)*slotPrice)
		}
	}
	return 1
}
