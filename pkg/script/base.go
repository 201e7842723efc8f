package script

import (
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// maxValues bounds how many values a call may pass or return at once.
const maxValues = 250

var baseFunctions = map[string]lua.LGFunction{
	opConcat: concat, opTable: constructed, opVararg: varargs, opStore: store, opKey: computedKey,
	opLength: lengthOf,

	"assert": baseAssert, "error": baseError, "ipairs": baseIpairs, "next": baseNext, "pairs": basePairs,
	"pcall": basePcall, "print": func(*lua.LState) int { return 0 }, "rawequal": baseRawEqual,
	"rawget": baseRawGet, "select": baseSelect, "tonumber": baseToNumber, "tostring": baseToString,
	"type": baseType, "unpack": baseUnpack,
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
		L.Push(L.CreateTable(4, 1))
	}
	return 1
}

func varargs(L *lua.LState) int {
	return tooMany(L, L.GetTop())
}

func tooMany(L *lua.LState, n int) int {
	if n > maxValues {
		L.RaiseError("too many values: a call may pass or return at most %d", maxValues)
	}
	return n
}

// store is t[k] = v. A key far beyond the end makes the engine fill the gap, so
// the gap is paid for first.
func store(L *lua.LState) int {
	t, ok := L.Get(1).(*lua.LTable)
	if !ok {
		L.RaiseError("attempt to index a non-table object(%s) with key '%s'", L.Get(1).Type(), printed(L.Get(2)))
	}
	key := L.Get(2)
	switch k := key.(type) {
	case *lua.LNilType:
		L.RaiseError("table index is nil")
	case lua.LNumber:
		if k != k {
			L.RaiseError("table index is NaN")
		}
		reserve(L, t, k)
	}
	t.RawSet(key, L.Get(3))
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
	if k, ok := L.Get(1).(lua.LNumber); ok && k > 0 && k < maxArray {
		runOf(L).alloc(L, int(k)*slotPrice)
		runOf(L).scan(L, int(k)*slotPrice)
	}
	return 1
}

func baseAssert(L *lua.LState) int {
	if L.ToBool(1) {
		return L.GetTop()
	}
	if L.GetTop() < 2 {
		L.RaiseError("assertion failed!")
	}
	L.Error(L.Get(2), 1)
	return 0
}

func baseError(L *lua.LState) int {
	v := L.Get(1)
	level := L.OptInt(2, 1)
	if s, ok := v.(lua.LString); ok && len(s) > maxMessage {
		v = s[:maxMessage]
	}
	L.Error(v, min(max(level, 0), maxCalls))
	return 0
}

var ipairsNext = host(func(L *lua.LState) int {
	i := L.CheckInt(2) + 1
	v := L.CheckTable(1).RawGetInt(i)
	if v == lua.LNil {
		return 0
	}
	L.Push(lua.LNumber(i))
	L.Push(v)
	return 2
})

func baseIpairs(L *lua.LState) int {
	t := L.CheckTable(1)
	L.Push(ipairsNext)
	L.Push(t)
	L.Push(lua.LNumber(0))
	return 3
}

var pairsNext = host(baseNext)

func basePairs(L *lua.LState) int {
	t := L.CheckTable(1)
	L.Push(pairsNext)
	L.Push(t)
	L.Push(lua.LNil)
	return 3
}

// baseNext also knows its way when length has dropped the slot that it is at:
// the engine's own next would then miss a key.
func baseNext(L *lua.LState) int {
	t, key := L.CheckTable(1), L.Get(2)
	if i, ok := key.(lua.LNumber); ok && i > 0 && i < maxArray && i == lua.LNumber(int(i)) {
		if n := t.MaxN(); int(i) > n {
			key = lua.LNumber(n)
			if n == 0 {
				key = lua.LNil
			}
		}
	}
	k, v := t.Next(key)
	L.Push(k)
	if k == lua.LNil {
		return 1
	}
	if to, ok := k.(lua.LNumber); ok && to < maxArray {
		from, _ := key.(lua.LNumber)
		runOf(L).scan(L, int(to-from)*slotPrice)
	}
	L.Push(v)
	return 2
}

// basePcall does not catch the end of a budget. A caught error is dear, because
// the engine writes a stack trace for it.
func basePcall(L *lua.LState) int {
	const price = 400
	r := runOf(L)
	if _, ok := L.Get(1).(*lua.LFunction); !ok {
		L.Push(lua.LFalse)
		L.Push(lua.LString("attempt to call a " + L.Get(1).Type().String() + " value"))
		return 2
	}
	err := L.PCall(L.GetTop()-1, lua.MultRet, nil)
	r.halt(L)
	if err == nil {
		L.Insert(lua.LTrue, 1)
		return tooMany(L, L.GetTop())
	}
	r.work(L, price)
	L.SetTop(0)
	L.Push(lua.LFalse)
	if api, ok := err.(*lua.ApiError); ok && api.Object != nil {
		L.Push(api.Object)
	} else {
		L.Push(lua.LString(shorten(err.Error())))
	}
	return 2
}

func baseRawEqual(L *lua.LState) int {
	L.Push(lua.LBool(L.CheckAny(1) == L.CheckAny(2)))
	return 1
}

func baseRawGet(L *lua.LState) int {
	L.Push(L.CheckTable(1).RawGet(L.CheckAny(2)))
	return 1
}

func baseSelect(L *lua.LState) int {
	n := L.GetTop()
	if s, ok := L.Get(1).(lua.LString); ok && s == "#" {
		L.Push(lua.LNumber(n - 1))
		return 1
	}
	i := L.CheckInt(1)
	if i < 0 {
		i = n + i
	}
	if i < 1 {
		L.ArgError(1, "index out of range")
	}
	return max(0, n-i)
}

// baseToNumber reads what Lua reads: decimals, exponents and 0x, no infinities.
func baseToNumber(L *lua.LState) int {
	base := L.OptInt(2, 10)
	if base < 2 || base > 36 {
		L.ArgError(2, "base out of range")
	}
	var n lua.LValue = lua.LNil
	switch v := L.CheckAny(1).(type) {
	case lua.LNumber:
		n = v
	case lua.LString:
		if f, ok := parseNumber(string(v), base); ok {
			n = lua.LNumber(f)
		}
	}
	L.Push(n)
	return 1
}

func parseNumber(s string, base int) (float64, bool) {
	const longest = 400
	if len(s) > longest {
		return 0, false
	}
	s = strings.Trim(s, " \t\n\r\v\f")
	if base != 10 {
		v, err := strconv.ParseInt(s, base, 64)
		return float64(v), err == nil
	}
	lower := strings.ToLower(s)
	if hex, ok := strings.CutPrefix(lower, "0x"); ok {
		v, err := strconv.ParseUint(hex, 16, 64)
		return float64(v), err == nil
	}
	if strings.Trim(lower, "0123456789.e+-") != "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil
}

func baseToString(L *lua.LState) int {
	L.Push(lua.LString(printed(L.CheckAny(1))))
	return 1
}

// printed is tostring without addresses, which differ from run to run.
func printed(v lua.LValue) string {
	switch v.Type() {
	case lua.LTTable, lua.LTFunction:
		return v.Type().String()
	case lua.LTUserData:
		return "null"
	}
	return v.String()
}

func baseType(L *lua.LState) int {
	L.Push(lua.LString(L.CheckAny(1).Type().String()))
	return 1
}

func baseUnpack(L *lua.LState) int {
	t := L.CheckTable(1)
	from, to := L.OptInt(2, 1), L.OptInt(3, length(t))
	if from > to {
		return 0
	}
	n := tooMany(L, min(to-from, maxValues)+1)
	for i := from; i <= to; i++ {
		L.Push(t.RawGetInt(i))
	}
	return n
}
