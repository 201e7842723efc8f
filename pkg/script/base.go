package script

import (
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// maxValues bounds the number of values that a call may pass or return at once.
const maxValues = 250

var baseFunctions = map[string]lua.LGFunction{
	"assert": baseAssert, "error": baseError, "ipairs": baseIpairs, "next": baseNext, "pairs": basePairs,
	"pcall": basePcall, "print": func(*lua.LState) int { return 0 }, "rawequal": baseRawEqual,
	"rawget": baseRawGet, "select": baseSelect, "tonumber": baseToNumber, "tostring": baseToString,
	"type": baseType, "unpack": baseUnpack,
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
	if level < 0 || level > 0 && L.Where(min(level, maxCalls)) == "" {
		level = 1
	}
	L.Error(v, min(level, maxCalls))
	return 0
}

// basePcall does not catch the end of a budget. A caught error has a high price,
// because the engine writes a stack trace for it.
func basePcall(L *lua.LState) int {
	const price = 1000
	r := runOf(L)
	if _, ok := L.Get(1).(*lua.LFunction); !ok {
		L.Push(lua.LFalse)
		L.Push(lua.LString("attempt to call a " + L.Get(1).Type().String() + " value"))
		return 2
	}
	err := L.PCall(L.GetTop()-1, lua.MultRet, nil)
	r.raiseIfStopped(L)
	if err == nil {
		L.Insert(lua.LTrue, 1)
		return tooMany(L, L.GetTop())
	}
	r.chargeSteps(L, price)
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
	if s, ok := L.CheckAny(1).(lua.LString); ok {
		runOf(L).chargeLongString(L, s)
	}
	L.Push(lua.LBool(L.CheckAny(1) == L.CheckAny(2)))
	return 1
}

func baseRawGet(L *lua.LState) int {
	if s, ok := L.CheckAny(2).(lua.LString); ok {
		runOf(L).chargeLongString(L, s)
	}
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

// baseToNumber reads the same numbers as Lua: decimals, exponents and 0x, no
// infinities.
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
	L.Push(lua.LString(displayString(L.CheckAny(1))))
	return 1
}

// displayString is tostring without addresses, which differ from run to run.
func displayString(v lua.LValue) string {
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
	from, to := L.OptInt(2, 1), L.OptInt(3, tableLength(t))
	if from > to {
		return 0
	}
	if to-from < 0 || to-from >= maxValues { // below 0: the difference overflows an integer
		tooMany(L, maxValues+1)
	}
	n := to - from + 1
	for i := from; i <= to; i++ {
		L.Push(t.RawGetInt(i))
	}
	return n
}
