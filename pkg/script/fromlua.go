package script

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// outlet converts a Lua value to a JSON-like one and counts its size, so that no
// result is larger than an API server accepts.
type outlet struct {
	run   *run
	nodes int
	bytes int
}

// fromLua converts the result of a script. The same table may appear several times;
// a table that contains itself is refused by its depth.
func (r *run) fromLua(v lua.LValue) (any, error) {
	o := outlet{run: r, nodes: r.limits.Nodes, bytes: r.limits.Output}
	out, err := o.convertValue(v, slot{}, 0)
	if err != nil {
		var at *placeError
		if errors.As(err, &at) {
			slices.Reverse(at.path)
			return nil, fmt.Errorf("the returned value%s %s", strings.Join(at.path, ""), at.what)
		}
		return nil, err
	}
	return out, nil
}

// placeError collects the path to the offending value while it unwinds.
type placeError struct {
	path []string
	what string
}

func (e *placeError) Error() string { return e.what }

func wrongValue(format string, args ...any) error {
	return &placeError{what: fmt.Sprintf(format, args...)}
}

func addPlace(err error, step string) error {
	var at *placeError
	if errors.As(err, &at) && len(at.path) < 12 {
		at.path = append(at.path, step)
	}
	return err
}

func (o *outlet) convertValue(v lua.LValue, at slot, depth int) (any, error) {
	if o.nodes--; o.nodes < 0 {
		return nil, wrongValue("has more than %d parts", o.run.limits.Nodes)
	}
	if depth > o.run.limits.Depth {
		return nil, wrongValue("is nested deeper than %d levels, or contains itself", o.run.limits.Depth)
	}
	switch v := v.(type) {
	case *lua.LNilType:
		return nil, nil
	case lua.LBool:
		return bool(v), nil
	case lua.LString:
		return string(v), o.spendBytes(len(v))
	case lua.LNumber:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, wrongValue("is the number %v, which JSON cannot express", float64(v))
		}
		if exact, ok := o.run.exactNumber(at, v); ok {
			return exact, nil
		}
		return numberOut(v), nil
	case *lua.LTable:
		return o.convertTable(v, depth)
	}
	if v == null {
		return nil, nil
	}
	return nil, wrongValue("is a %s, which JSON cannot express", v.Type())
}

func (o *outlet) spendBytes(n int) error {
	if o.bytes -= n; o.bytes < 0 {
		return wrongValue("holds more than %d bytes of text", o.run.limits.Output)
	}
	return nil
}

func (o *outlet) convertTable(t *lua.LTable, depth int) (any, error) {
	elements := 0
	last := t.MaxN()
	for i := 1; i <= last; i++ {
		if t.RawGetInt(i) != lua.LNil {
			elements++
		}
	}
	outer := len(o.run.names)
	defer func() { o.run.names = o.run.names[:outer] }()
	behind := lua.LNil
	if last > 0 {
		behind = lua.LNumber(last)
	}
	for k, _ := t.Next(behind); k != lua.LNil; k, _ = t.Next(k) {
		switch k := k.(type) {
		case lua.LString:
			o.run.names = append(o.run.names, string(k))
		case lua.LNumber:
			elements++
		default:
			return nil, wrongValue("has a key that is neither a string nor a number")
		}
	}
	names := o.run.names[outer:]
	switch {
	case elements > 0 && len(names) > 0:
		return nil, wrongValue("mixes list elements with named members")
	case elements > 0:
		return o.convertArray(t, elements, depth)
	case len(names) == 0 && t.Metatable == arrayMark:
		return []any{}, nil
	}
	slices.Sort(names)
	return o.convertObject(t, names, depth)
}

func (o *outlet) convertArray(t *lua.LTable, n, depth int) (any, error) {
	if n > o.nodes {
		return nil, wrongValue("has more than %d parts", o.run.limits.Nodes)
	}
	out := make([]any, n)
	for i := range out {
		v := t.RawGetInt(i + 1)
		if v == lua.LNil {
			return nil, wrongValue("is a list with holes: it has %d elements, and none at index %d", n, i+1)
		}
		var err error
		if out[i], err = o.convertValue(v, slot{table: t, index: i + 1}, depth+1); err != nil {
			return nil, addPlace(err, fmt.Sprintf("[%d]", i+1))
		}
	}
	return out, nil
}

func (o *outlet) convertObject(t *lua.LTable, keys []string, depth int) (any, error) {
	out := make(map[string]any, len(keys))
	for _, k := range keys {
		if err := o.spendBytes(len(k)); err != nil {
			return nil, err
		}
		v, err := o.convertValue(t.RawGetString(k), slot{table: t, name: k}, depth+1)
		if err != nil {
			return nil, addPlace(err, "."+k)
		}
		out[k] = v
	}
	for _, k := range o.run.nulls[t] {
		if _, set := out[k]; !set {
			out[k] = nil
		}
	}
	return out, nil
}
