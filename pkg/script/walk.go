package script

import (
	lua "github.com/yuin/gopher-lua"
)

// tableWalk records what makes a walk through a table expensive: the engine keeps
// the slots of removed members, and steps over all of them to the next member.
type tableWalk struct {
	dead  map[*lua.LTable]int // number of members that the script removed
	table *lua.LTable         // the table of the last next,
	key   lua.LValue          // and the key that it returned
}

func (w *tableWalk) countRemoved(t *lua.LTable, key lua.LValue) {
	if t.RawGet(key) == lua.LNil {
		return
	}
	if w.dead == nil {
		w.dead = map[*lua.LTable]int{}
	}
	w.dead[t]++
}

// stepOver charges a next that does not continue the last one: it may step over the
// same removed members again and again. Members that the source removes by name are
// not counted, but the source has few names.
func (r *run) stepOver(L *lua.LState, t *lua.LTable, key lua.LValue) {
	const perStep = 4
	if t != r.tableWalk.table || key != r.tableWalk.key {
		r.chargeSteps(L, (r.tableWalk.dead[t]+r.named)/perStep)
	}
}

var ipairsNext = hostFunction(func(L *lua.LState) int {
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

var pairsNext = hostFunction(baseNext)

func basePairs(L *lua.LState) int {
	t := L.CheckTable(1)
	L.Push(pairsNext)
	L.Push(t)
	L.Push(lua.LNil)
	return 3
}

// baseNext also works if tableLength has dropped the slot of its key: the engine's
// own next would then miss a key.
func baseNext(L *lua.LState) int {
	t, key := L.CheckTable(1), L.Get(2)
	r := runOf(L)
	if s, ok := key.(lua.LString); ok {
		r.chargeLongString(L, s)
	}
	r.stepOver(L, t, key)
	if i, ok := key.(lua.LNumber); ok && i > 0 && i < maxArray && i == lua.LNumber(int(i)) && t.RawGetInt(int(i)) == lua.LNil {
		r.chargeSteps(L, r.tableWalk.dead[t]/bytesPerStep)
		if n := t.MaxN(); int(i) > n {
			key = lua.LNumber(n)
			if n == 0 {
				key = lua.LNil
			}
		}
	}
	k, v := t.Next(key)
	r.tableWalk.table, r.tableWalk.key = t, k
	L.Push(k)
	if k == lua.LNil {
		return 1
	}
	if to, ok := k.(lua.LNumber); ok && to < maxArray {
		from, _ := key.(lua.LNumber)
		r.chargeScan(L, int(to-from)*slotPrice)
	}
	L.Push(v)
	return 2
}
