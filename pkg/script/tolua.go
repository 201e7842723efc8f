package script

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	lua "github.com/yuin/gopher-lua"
)

// toLua converts a JSON-like value. It adds keys in sorted order, so that a script
// that walks a table with pairs does the same on every run.
func (r *run) toLua(v any) (lua.LValue, error) {
	return r.luaValue(v, slot{}, 0)
}

func (r *run) luaValue(v any, at slot, depth int) (lua.LValue, error) {
	if depth > r.limits.Depth {
		return nil, fmt.Errorf("the input is nested deeper than %d levels", r.limits.Depth)
	}
	r.values++
	switch v := v.(type) {
	case nil:
		return lua.LNil, nil
	case bool:
		return lua.LBool(v), nil
	case string:
		return lua.LString(v), nil
	case int64:
		return r.luaInteger(v, at), nil
	case int:
		return r.luaInteger(int64(v), at), nil
	case int32:
		return r.luaInteger(int64(v), at), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("the input holds the number %v, which JSON cannot express", v)
		}
		return lua.LNumber(v), nil
	case json.Number:
		return r.luaNumber(v, at)
	case map[string]any:
		return r.luaObject(v, depth)
	case map[string]string:
		t := r.newTable(0, len(v), objectMark)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			t.RawSetString(k, lua.LString(v[k]))
		}
		return t, nil
	case []any:
		return r.luaArray(v, depth)
	}
	return nil, fmt.Errorf("the input holds a %T, which is no JSON value", v)
}

func (r *run) luaObject(v map[string]any, depth int) (lua.LValue, error) {
	t := r.newTable(0, len(v), objectMark)
	outer := len(r.names)
	defer func() { r.names = r.names[:outer] }()
	for k := range v {
		r.names = append(r.names, k)
	}
	keys := r.names[outer:]
	slices.Sort(keys)
	for _, k := range keys {
		if v[k] == nil {
			r.keepNull(t, k)
			continue
		}
		lv, err := r.luaValue(v[k], slot{table: t, name: k}, depth+1)
		if err != nil {
			return nil, err
		}
		t.RawSetString(k, lv)
	}
	return t, nil
}

func (r *run) luaArray(v []any, depth int) (lua.LValue, error) {
	if len(v) >= maxArray {
		return nil, fmt.Errorf("the input holds an array of %d elements; scripts handle less than %d", len(v), maxArray)
	}
	t := r.newTable(len(v), 0, arrayMark)
	for i, e := range v {
		if e == nil {
			t.RawSetInt(i+1, null)
			continue
		}
		lv, err := r.luaValue(e, slot{table: t, index: i + 1}, depth+1)
		if err != nil {
			return nil, err
		}
		t.RawSetInt(i+1, lv)
	}
	return t, nil
}

func (r *run) luaInteger(v int64, at slot) lua.LValue {
	n := lua.LNumber(v)
	if !isSafeInteger(n) {
		r.keepExact(at, n, v)
	}
	return n
}

// luaNumber converts a literal. It keeps the literal if the output of the number
// would be other text.
func (r *run) luaNumber(v json.Number, at slot) (lua.LValue, error) {
	if i, err := strconv.ParseInt(string(v), 10, 64); err == nil && strconv.FormatInt(i, 10) == string(v) {
		return r.luaInteger(i, at), nil
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("the input holds %q, which is no number that a script can handle", shorten(string(v)))
	}
	n := lua.LNumber(f)
	if text, err := json.Marshal(numberOut(n)); err != nil || string(text) != string(v) {
		r.keepExact(at, n, v)
	}
	return n, nil
}

// numberOut converts a number for the result: integers stay integers.
func numberOut(n lua.LNumber) any {
	if isSafeInteger(n) && (n != 0 || !math.Signbit(float64(n))) {
		return int64(n)
	}
	return float64(n)
}

func (r *run) newTable(array, hash int, mark *lua.LTable) *lua.LTable {
	t := r.state.CreateTable(array, hash)
	t.Metatable = mark
	return t
}
