package script

import (
	"encoding/json"
	"strconv"

	lua "github.com/yuin/gopher-lua"
)

// memory keeps the parts of JSON that a Lua table cannot hold, outside the tables
// and invisible to the script. These are null members of objects, and numbers that a
// float64 does not hold. The metatable of an empty table says whether it was an
// array.
type memory struct {
	nulls map[*lua.LTable][]string
	exact map[slot]any
	large map[lua.LNumber]any // by value, for numbers that moved; nil = ambiguous
}

// slot is a place in a table, by name or by index; the zero slot is the
// top-level value.
type slot struct {
	table *lua.LTable
	name  string
	index int
}

// The markers are metatables without metamethods, shared by all runs and never
// written. Scripts cannot reach a metatable.
var (
	arrayMark  = &lua.LTable{Metatable: lua.LNil}
	objectMark = &lua.LTable{Metatable: lua.LNil}
)

// null stands for the null elements of arrays, which would otherwise end an
// ipairs loop. Scripts see it as json.null.
var null = &lua.LUserData{Metatable: lua.LNil}

func (m *memory) keepNull(t *lua.LTable, key string) {
	if m.nulls == nil {
		m.nulls = map[*lua.LTable][]string{}
	}
	m.nulls[t] = append(m.nulls[t], key)
}

func (m *memory) keepExact(at slot, n lua.LNumber, v any) {
	if m.exact == nil {
		m.exact, m.large = map[slot]any{}, map[lua.LNumber]any{}
	}
	m.exact[at] = v
	if isSafeInteger(n) {
		return
	}
	if known, seen := m.large[n]; seen && known != v {
		m.large[n] = nil
		return
	}
	m.large[n] = v
}

// exactNumber returns the number as the JSON had it, if it is still the same number.
func (m *memory) exactNumber(at slot, n lua.LNumber) (any, bool) {
	if m.exact == nil {
		return nil, false
	}
	if v, ok := m.exact[at]; ok && toFloat(v) == n {
		return v, true
	}
	v := m.large[n]
	return v, v != nil
}

func toFloat(v any) lua.LNumber {
	switch v := v.(type) {
	case int64:
		return lua.LNumber(v)
	case json.Number:
		f, _ := strconv.ParseFloat(string(v), 64)
		return lua.LNumber(f)
	}
	return 0
}

// isSafeInteger reports whether n is an integer below 2^53; each of these has its
// own float64.
func isSafeInteger(n lua.LNumber) bool {
	return n > -(1<<53) && n < 1<<53 && n == lua.LNumber(int64(n))
}
