package script

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// unhurried leaves the result to the deterministic budgets, on slow machines as
// well.
var unhurried = Limits{Deadline: time.Minute}

func run1(t *testing.T, source string, input any) (any, error) {
	t.Helper()
	p, err := Compile("test", source)
	if err != nil {
		return nil, err
	}
	return p.Run(t.Context(), input, unhurried)
}

func TestScriptsSeeOrdinaryLua(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		want   any
	}{
		"concatenation of strings and numbers":  {`return "a" .. 1 .. "b" .. 2.5`, "a1b2.5"},
		"assignment to computed keys":           {`local t = {} t[1], t[2] = "x", "y" t["k"..1] = 3 return {t[1], t[2], t.k1}`, []any{"x", "y", int64(3)}},
		"swap evaluates before it stores":       {`local t = {1, 2} t[1], t[2] = t[2], t[1] return t`, []any{int64(2), int64(1)}},
		"index evaluated before the assignment": {`local i, t = 1, {} i, t[i] = i + 1, 20 return {i, t[1]}`, []any{int64(2), int64(20)}},
		"mixed targets with a call":             {`local function f() return 1, 2 end local t, x = {} x, t[1] = f() return {x, t[1]}`, []any{int64(1), int64(2)}},
		"varargs":                               {`local function f(...) return select("#", ...), ... end return {f(1, nil, 3)}`, nil},
		"varargs are truncated by parentheses":  {`local function f(...) return (...) end return {f(1, 2)}`, []any{int64(1)}},
		"concat truncates the last call":        {`local function f() return "b", "c" end return "a" .. f()`, "ab"},
		"table with computed keys":              {`local k = "x" return {[k] = 1, ["y"] = 2, [k .. "z"] = 3}`, map[string]any{"x": int64(1), "y": int64(2), "xz": int64(3)}},
		"table ends with all values of a call":  {`local function f() return 1, 2 end return {0, f()}`, []any{int64(0), int64(1), int64(2)}},
		"string methods":                        {`return ("a.b"):gsub("%.", "-")`, "a-b"},
		"methods added to string":               {`function string.shout(s) return s:upper() .. "!" end return ("a"):shout()`, "A!"},
		"find with captures":                    {`local a, b, c = ("key=value"):find("(%w+)=") return {a, b, c}`, []any{int64(1), int64(4), "key"}},
		"find a plain dot":                      {`return ("a.b"):find(".", 1, true)`, int64(2)},
		"match anchors":                         {`return {("abc"):match("^b") == nil, ("abc"):match("c$"), ("  x "):match("^%s*(.-)%s*$")}`, []any{true, "c", "x"}},
		"position captures":                     {`return {("hello"):match("()ll()")}`, []any{int64(3), int64(5)}},
		"balanced match":                        {`return ("f(a(b)c)d"):match("%b()")`, "(a(b)c)"},
		"back-references":                       {`return ("say 'hi' now"):match("(['\"])(.-)%1")`, "'"},
		"gmatch":                                {`local t = {} for k, v in ("a=1,b=2"):gmatch("(%w)=(%w)") do t[k] = v end return t`, map[string]any{"a": "1", "b": "2"}},
		"gmatch of empty matches":               {`local n = 0 for _ in ("abc"):gmatch("") do n = n + 1 end return n`, int64(4)},
		"gsub with a table":                     {`return (("$a $b"):gsub("%$(%w)", {a = "1"}))`, "1 $b"},
		"gsub with a function":                  {`return (("abc"):gsub("%w", function(c) if c == "b" then return "B" end end))`, "aBc"},
		"gsub with captures and limit":          {`return (("aaa"):gsub("(a)", "<%1%%>", 2))`, "<a%><a%>a"},
		"gsub of the empty pattern":             {`return (("ab"):gsub("", "-"))`, "-a-b-"},
		"sets":                                  {`return (("a-b_c]d"):gsub("[]_%-]", "."))`, "a.b.c.d"},
		"negated set and range":                 {`return (("a1B2"):gsub("[^a-z0-9]", "?"))`, "a1?2"},
		"frontier":                              {`return (("THE (quick) fox"):gsub("%f[%a]%a+", "w"))`, "w (w) w"},
		"format":                                {`return string.format("%5.1f|%d|%s|%q|%x|%%|%-4s|%03d|%g", 3.14159, 42, "s", 'a"b', 255, "ab", 7, 0.1)`, `  3.1|42|s|"a\"b"|ff|%|ab  |007|0.1`},
		"format pads text":                      {`return string.format("%10s|%-10s|%020s|%3c|%.2s", "a", "b", "c", 65, "abc")`, "         a|b         |                   c|  A|ab"},
		"sub with negative indices":             {`return {("hello"):sub(-3), ("hello"):sub(2, -2), ("hello"):sub(9)}`, []any{"llo", "ell", ""}},
		"byte and char":                         {`return string.char(string.byte("AZ", 1, 2))`, "AZ"},
		"byte gives only what was asked for":    {`local function n(...) return select("#", ...) end return {n(("abc"):byte(2)), n(("abc"):byte(2, 3)), n(("abc"):byte(9))}`, []any{int64(1), int64(2), int64(0)}},
		"tonumber":                              {`return {tonumber("10"), tonumber("0x10"), tonumber("1e3"), tonumber("z", 36), tonumber("x") == nil, tonumber(" 5 ")}`, []any{int64(10), int64(16), int64(1000), int64(35), true, int64(5)}},
		"tostring shows no address":             {`return tostring({}) .. tostring(nil) .. tostring(1.5) .. tostring(print)`, "tablenil1.5function"},
		"pcall catches":                         {`local ok, e = pcall(error, "x", 0) return {ok, e}`, []any{false, "x"}},
		"pcall returns values":                  {`return {pcall(function(a) return a, 2 end, 1)}`, []any{true, int64(1), int64(2)}},
		"error keeps its position for pcall":    {"local ok, e = pcall(function()\n error('no') end) return e", "test:2: no"},
		"closures of a failed function keep their variables": {`local f pcall(function() local a = 7 f = function() return a end error("x") end) local x, y, z = 1, 2, 3 return f()`, int64(7)},
		"return of several values":                           {`local function f() return 1, 2 end local function g() return f() end return {g()}`, []any{int64(1), int64(2)}},
		"sort":                                               {`local t = {3, 1, 2} table.sort(t) table.sort(t, function(a, b) return a > b end) return t`, []any{int64(3), int64(2), int64(1)}},
		"insert and remove":                                  {`local t = {1, 3} table.insert(t, 2, 2) table.insert(t, 4) return {table.remove(t, 1), table.remove(t), #t}`, []any{int64(1), int64(4), int64(2)}},
		"table.concat":                                       {`return table.concat({1, "b", 3}, ", ")`, "1, b, 3"},
		"table.create":                                       {`local t = table.create() t.a = 1 local u = table.create(3) table.insert(u, 1) return {t, u}`, []any{map[string]any{"a": int64(1)}, []any{int64(1)}}},
		"ipairs and pairs":                                   {`local n = 0 for i, v in ipairs({4, 5}) do n = n + i * v end for k, v in pairs({a = 1}) do n = n + v end return n`, int64(15)},
		"select from the end":                                {`return {select(-1, 1, 2, 3)}`, []any{int64(3)}},
		"unpack":                                             {`return {unpack({1, 2, 3}, 2)}`, []any{int64(2), int64(3)}},
		"math":                                               {`return {math.floor(2.7), math.ceil(2.1), math.max(1, 3, 2), math.min(2, 1), math.huge > 1}`, []any{int64(2), int64(3), int64(3), int64(1), true}},
		"json":                                               {`return {json.encode({a = {}, b = json.decode("[]")}), json.decode('{"x":[1,null]}').x[2] == json.null}`, []any{`{"a":{},"b":[]}`, true}},
		"print prints nothing":                               {`print("x") return 1`, int64(1)},
		"a fresh table that was inserted into":               {`local t = {} table.insert(t, 1) table.remove(t) return {t, {}}`, []any{[]any{}, map[string]any{}}},
		"the same table twice":                               {`local t = {1} return {a = t, b = t}`, map[string]any{"a": []any{int64(1)}, "b": []any{int64(1)}}},
		"method definitions and self":                        {`local o = {n = 1} function o:inc(k) self.n = self.n + k return self end return o:inc(2).n`, int64(3)},
		"goto and repeat":                                    {`local i = 0 repeat i = i + 1 if i == 2 then goto done end until i == 5 ::done:: return i`, int64(2)},
		"os and io do not exist":                             {`return {os == nil, io == nil, require == nil, loadstring == nil, setmetatable == nil, _G == nil, debug == nil, dofile == nil}`, []any{true, true, true, true, true, true, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := run1(t, c.source, nil)
			if c.want == nil {
				if err == nil {
					t.Fatalf("got %v, want an error", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
