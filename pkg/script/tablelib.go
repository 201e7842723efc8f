package script

import (
	"sort"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

var tableFunctions = map[string]lua.LGFunction{
	"concat": tableConcat, "create": tableCreate, "getn": tableGetn, "insert": tableInsert,
	"maxn": tableMaxn, "remove": tableRemove, "sort": tableSort,
}

func tableConcat(L *lua.LState) int {
	t := L.CheckTable(1)
	sep := L.OptString(2, "")
	from, to := L.OptInt(3, 1), L.OptInt(4, tableLength(t))
	if from > to {
		L.Push(lua.LString(""))
		return 1
	}
	r := runOf(L)
	size := 0
	for i := from; i <= to; i++ {
		v := t.RawGetInt(i)
		if !lua.LVCanConvToString(v) {
			L.RaiseError("invalid value (%s) at index %d in table for concat", v.Type(), i)
		}
		r.chargeSteps(L, 1)
		if size += len(v.String()) + len(sep); size > maxString+len(sep) {
			break
		}
	}
	r.chargeString(L, size)
	var b strings.Builder
	b.Grow(size)
	for i := from; i <= to; i++ {
		b.WriteString(t.RawGetInt(i).String())
		if i < to {
			b.WriteString(sep)
		}
	}
	L.Push(lua.LString(b.String()))
	return 1
}

// tableCreate makes an empty table; it ignores the size, a hint that other dialects
// of Lua take.
func tableCreate(L *lua.LState) int {
	L.OptInt(1, 0)
	runOf(L).chargeBytes(L, tablePrice)
	L.Push(L.CreateTable(4, 1))
	return 1
}

func tableGetn(L *lua.LState) int {
	L.Push(lua.LNumber(tableLength(L.CheckTable(1))))
	return 1
}

func tableMaxn(L *lua.LState) int {
	L.Push(lua.LNumber(tableLength(L.CheckTable(1))))
	return 1
}

// tableInsert also decides the type of a new table: a table with an insertion is a
// list, even if it is empty at the end.
func tableInsert(L *lua.LState) int {
	t := L.CheckTable(1)
	r := runOf(L)
	r.chargeBytes(L, slotPrice)
	if t.Metatable == lua.LNil {
		t.Metatable = arrayMark
	}
	n := tableLength(t)
	if n+1 >= maxArray {
		L.RaiseError("table too long: a list may have less than %d elements", maxArray)
	}
	switch L.GetTop() {
	case 2:
		t.RawSetInt(n+1, L.Get(2))
	case 3:
		at := L.CheckInt(2)
		if at < 1 || at > n+1 {
			L.ArgError(2, "position out of bounds")
		}
		r.chargeScan(L, (n-at)*16)
		t.Insert(at, L.Get(3))
	default:
		L.RaiseError("wrong number of arguments to 'insert'")
	}
	return 0
}

func tableRemove(L *lua.LState) int {
	t := L.CheckTable(1)
	n := tableLength(t)
	at := L.OptInt(2, n)
	if n == 0 || at < 1 || at > n {
		return 0
	}
	runOf(L).chargeScan(L, (n-at)*16)
	L.Push(t.Remove(at))
	return 1
}

func tableSort(L *lua.LState) int {
	t := L.CheckTable(1)
	var less *lua.LFunction
	if L.GetTop() > 1 && L.Get(2) != lua.LNil {
		less = L.CheckFunction(2)
	}
	n := tableLength(t)
	runOf(L).chargeBytes(L, n*slotPrice)
	s := sorter{L: L, less: less, values: make([]lua.LValue, n)}
	for i := range s.values {
		s.values[i] = t.RawGetInt(i + 1)
	}
	sort.Sort(&s)
	for i, v := range s.values {
		t.RawSetInt(i+1, v)
	}
	return 0
}

// sorter sorts a copy, so that a comparison that changes the table, or is
// inconsistent, does no harm.
type sorter struct {
	L      *lua.LState
	less   *lua.LFunction
	values []lua.LValue
}

func (s *sorter) Len() int      { return len(s.values) }
func (s *sorter) Swap(i, j int) { s.values[i], s.values[j] = s.values[j], s.values[i] }

func (s *sorter) Less(i, j int) bool {
	a, b := s.values[i], s.values[j]
	runOf(s.L).chargeSteps(s.L, 1)
	if s.less != nil {
		s.L.Push(s.less)
		s.L.Push(a)
		s.L.Push(b)
		s.L.Call(2, 1)
		v := s.L.Get(-1)
		s.L.Pop(1)
		return lua.LVAsBool(v)
	}
	switch a := a.(type) {
	case lua.LNumber:
		if b, ok := b.(lua.LNumber); ok {
			return a < b
		}
	case lua.LString:
		if b, ok := b.(lua.LString); ok {
			runOf(s.L).chargeScan(s.L, min(len(a), len(b)))
			return a < b
		}
	}
	s.L.RaiseError("attempt to compare %s with %s", a.Type(), b.Type())
	return false
}
