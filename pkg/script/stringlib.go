package script

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

var stringFunctions = map[string]lua.LGFunction{
	"byte": stringByte, "char": stringChar, "find": stringFind, "format": stringFormat, "gfind": stringGmatch,
	"gmatch": stringGmatch, "gsub": stringGsub, "len": stringLen, "lower": stringLower, "match": stringMatch,
	"rep": stringRep, "reverse": stringReverse, "sub": stringSub, "upper": stringUpper,
}

// sliceBounds turns Lua's 1-based, possibly negative, inclusive indices into a slice.
func sliceBounds(n, i, j int) (from, to int) {
	if i < 0 {
		i = max(n+i+1, 1)
	} else if i == 0 {
		i = 1
	}
	if j < 0 {
		j = n + j + 1
	}
	j = min(j, n)
	if i > j {
		return 0, 0
	}
	return i - 1, j
}

func stringByte(L *lua.LState) int {
	s := L.CheckString(1)
	i := L.OptInt(2, 1)
	from, to := sliceBounds(len(s), i, L.OptInt(3, i))
	n := tooMany(L, to-from)
	for _, c := range []byte(s[from:to]) {
		L.Push(lua.LNumber(c))
	}
	return n
}

func stringChar(L *lua.LState) int {
	b := make([]byte, L.GetTop())
	for i := range b {
		n := L.CheckInt(i + 1)
		if n < 0 || n > 255 {
			L.ArgError(i+1, "invalid value")
		}
		b[i] = byte(n)
	}
	return pushString(L, string(b))
}

// pushString charges for a string and returns it to the script.
func pushString(L *lua.LState, s string) int {
	runOf(L).chargeString(L, len(s))
	L.Push(lua.LString(s))
	return 1
}

func stringLen(L *lua.LState) int {
	L.Push(lua.LNumber(len(L.CheckString(1))))
	return 1
}

// stringLower and stringUpper change ASCII only, like Lua in the C locale.
func stringLower(L *lua.LState) int { return mapBytes(L, 'A', 'Z') }
func stringUpper(L *lua.LState) int { return mapBytes(L, 'a', 'z') }

func mapBytes(L *lua.LState, from, to byte) int {
	s := L.CheckString(1)
	runOf(L).chargeString(L, len(s))
	b := []byte(s)
	for i, c := range b {
		if from <= c && c <= to {
			b[i] = c ^ 0x20
		}
	}
	L.Push(lua.LString(b))
	return 1
}

func stringRep(L *lua.LState) int {
	s, n := L.CheckString(1), L.CheckInt(2)
	if n <= 0 || s == "" {
		L.Push(lua.LString(""))
		return 1
	}
	n = min(n, maxString+1)
	runOf(L).chargeString(L, len(s)*n)
	L.Push(lua.LString(strings.Repeat(s, n)))
	return 1
}

func stringReverse(L *lua.LState) int {
	s := L.CheckString(1)
	runOf(L).chargeString(L, len(s))
	b := make([]byte, len(s))
	for i := range b {
		b[i] = s[len(s)-1-i]
	}
	L.Push(lua.LString(b))
	return 1
}

func stringSub(L *lua.LState) int {
	s := L.CheckString(1)
	from, to := sliceBounds(len(s), L.CheckInt(2), L.OptInt(3, -1))
	runOf(L).chargeBytes(L, 16)
	L.Push(lua.LString(s[from:to]))
	return 1
}

func stringFind(L *lua.LState) int  { return searchPattern(L, true) }
func stringMatch(L *lua.LState) int { return searchPattern(L, false) }

func searchPattern(L *lua.LState, find bool) int {
	s, p := L.CheckString(1), L.CheckString(2)
	init := L.OptInt(3, 1)
	if init < 0 {
		init = max(len(s)+init+1, 1)
	}
	init = max(init, 1) - 1
	if init > len(s) {
		L.Push(lua.LNil)
		return 1
	}
	runOf(L).chargeScan(L, len(p))
	if find && (lua.LVAsBool(L.Get(4)) || !strings.ContainsAny(p, "^$*+?.([%-")) {
		return findPlain(L, s, p, init)
	}
	m := newMatcher(L, s, p)
	from := 0
	if strings.HasPrefix(p, "^") {
		from = 1
	}
	for ; init <= len(s); init++ {
		if e := m.matchAt(init, from); e != noMatch {
			if !find {
				return m.pushCaptures(init, e, true)
			}
			L.Push(lua.LNumber(init + 1))
			L.Push(lua.LNumber(e))
			return 2 + m.pushCaptures(init, e, false)
		}
		if from == 1 {
			break
		}
	}
	L.Push(lua.LNil)
	return 1
}

func findPlain(L *lua.LState, s, p string, init int) int {
	runOf(L).chargeScan(L, len(s)-init)
	at := strings.Index(s[init:], p)
	if at < 0 {
		L.Push(lua.LNil)
		return 1
	}
	L.Push(lua.LNumber(init + at + 1))
	L.Push(lua.LNumber(init + at + len(p)))
	return 2
}

// stringGmatch anchors a pattern that begins with ^, as the engine's own does; real
// Lua 5.1 treats the ^ as a character.
func stringGmatch(L *lua.LState) int {
	m := newMatcher(L, L.CheckString(1), L.CheckString(2))
	m.run.chargeBytes(L, 1024)
	at, last, from := 0, len(m.src), 0
	if strings.HasPrefix(m.pat, "^") {
		last, from = 0, 1
	}
	L.Push(hostFunction(func(L *lua.LState) int {
		m.L = L
		for ; at <= last; at++ {
			s := at
			e := m.matchAt(s, from)
			if e == noMatch {
				continue
			}
			at = max(e, s+1)
			return m.pushCaptures(s, e, true)
		}
		return 0
	}))
	return 1
}
