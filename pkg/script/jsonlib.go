package script

import (
	"bytes"
	"encoding/json"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

var jsonFunctions = map[string]lua.LGFunction{"encode": jsonEncode, "decode": jsonDecode}

func jsonEncode(L *lua.LState) int {
	r := runOf(L)
	v, err := r.fromLua(L.CheckAny(1))
	if err != nil {
		L.RaiseError("%s", shorten(err.Error()))
	}
	r.chargeSteps(L, countNodes(v))
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		L.RaiseError("%s", shorten(err.Error()))
	}
	out := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	r.chargeString(L, len(out))
	L.Push(lua.LString(out))
	return 1
}

// jsonDecode keeps the same JSON details as the codec. It charges for the tables
// before it makes them.
func jsonDecode(L *lua.LState) int {
	r := runOf(L)
	const bytesPerStep = 8
	s := L.CheckString(1)
	r.chargeString(L, len(s))
	r.chargeSteps(L, len(s)/bytesPerStep)
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		L.RaiseError("%s", shorten(err.Error()))
	}
	if dec.More() {
		L.RaiseError("invalid character after the JSON value")
	}
	r.chargeBytes(L, countNodes(v)*tablePrice/8)
	lv, err := r.toLua(v)
	if err != nil {
		L.RaiseError("%s", shorten(err.Error()))
	}
	L.Push(lv)
	return 1
}

func countNodes(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			n += countNodes(e)
		}
	case []any:
		for _, e := range v {
			n += countNodes(e)
		}
	}
	return n
}
