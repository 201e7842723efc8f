package script

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// OpenKruise's scripts run on the stock engine, but their authors also know Lua.
// These are the places where the two differ, and where this engine does as Lua 5.1
// does.
func TestWhereTheStockEngineIsNotLua(t *testing.T) {
	for name, c := range map[string]struct{ source, want string }{
		"match of nothing is nil":            {`return select("#", ("a"):match("b"))`, "1"},
		"frontier at the beginning":          {`return ("THE fox"):find("%f[%a]%a+")`, "1"},
		"gsub zero times":                    {`return (("aaa"):gsub("a", "b", 0))`, "aaa"},
		"gsub less than zero times":          {`return (("aaa"):gsub("a", "b", -1))`, "aaa"},
		"plain find behind the end":          {`return tostring(("abc"):find("c", 9, true))`, "nil"},
		"a pattern that ends with percent":   {`return pcall(string.find, "a", "%")`, "false"},
		"format without its argument":        {`return pcall(string.format, "%d")`, "false"},
		"format of text as a number":         {`return pcall(string.format, "%d", "x")`, "false"},
		"format of an unsigned number":       {`return string.format("%u", 5)`, "5"},
		"format of a negative number in hex": {`return string.format("%x", -1)`, "ffffffffffffffff"},
		"concat of nothing":                  {`return table.concat({"a"}, ";", 2, 1)`, ""},
		"concat of one number is text":       {`return type(table.concat({45}))`, "string"},
		"char of what is no byte":            {`return pcall(string.char, -2)`, "false"},
	} {
		t.Run(name, func(t *testing.T) {
			source := strings.Replace(c.source, "return ", "local function f() return ", 1) + " end\nout[\"v\"] = tostring((f()))"
			p, err := Compile("test", "local out = {}\n"+source+"\nreturn out")
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Run(t.Context(), nil, unhurried)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]any{"v": c.want}, got); diff != "" {
				t.Error(diff)
			}
			if real := lua51Probe(t, source, nil); real != nil && real["v"] != shown(c.want) {
				t.Errorf("Lua 5.1 gives %s", real["v"])
			}
		})
	}
}

const patternProbe = `
local s, p, r, i = obj.s, obj.p, obj.r, math.min(obj.i, #obj.s)
call(string.find, s, p)
call(string.find, s, p, i)
call(string.find, s, p, i, true)
call(function() local a, b, c, d = string.match(s, p) return a, b, c, d end)
call(function() local a, b, c, d = string.match(s, p, i) return a, b, c, d end)
call(string.gsub, s, p, r)
if i > 0 then call(string.gsub, s, p, "<%0>", i) end
call(string.gsub, s, p, {a = "1", [""] = "2", b = false})
call(string.gsub, s, p, function(a, b) if a == "a" then return "(" .. tostring(b) .. ")" end end)
call(function()
	local t, rounds = {}, 0
	for a, b in string.gmatch(s, p) do
		rounds = rounds + 1
		if rounds > 50 then break end
		table.insert(t, tostring(a) .. "," .. tostring(b))
	end
	return table.concat(t, "|")
end)`

func FuzzPatternsAgree(f *testing.F) {
	for _, s := range [][3]string{
		{"hello world", "o", "0"}, {"key=value", "(%w+)=(%w+)", "%2=%1"}, {"  x ", "^%s*(.-)%s*$", "%1"}, {"f(a(b)c)", "%b()", "%0"},
		{"THE (quick) fox", "%f[%a]%a+", "w"}, {"a.b-c", "[%.%-]", "%%"}, {"say 'hi'", "(['\"])(.-)%1", "%2"}, {"abc", "()", "%1"}, {"", "", "-"},
		{"a]b", "[]]", "x"}, {"a^b", "[%^^]", "x"}, {"a-z", "[a%-z]", "x"}, {"abc", "[", ""}, {"abc", "%", ""}, {"abc", "(", ""}, {"abc", "%1", ""},
		{"aaa", "a-b", ""}, {"x\x00y", "%z", "0"}, {"abc", "b", "%9"}, {"abc", "$", "!"}, {"a$", "a$b", ""}, {"abc", "^", "!"}, {"^a", "%^a", "!"},
	} {
		f.Add(s[0], s[1], s[2], 1)
	}
	f.Fuzz(func(t *testing.T, s, p, r string, i int) {
		if len(s) > 24 || len(p) > 14 || len(r) > 8 || strings.Count(p, "*")+strings.Count(p, "+")+strings.Count(p, "-")+strings.Count(p, "?") > 4 {
			t.Skip()
		}
		if strings.Contains(p, "\x00") {
			t.Skip() // ends a pattern in Lua 5.1, but not in the stock engine
		}
		if strings.HasSuffix(strings.ReplaceAll(r, "%%", ""), "%") {
			t.Skip() // a single percent sign at the end has no meaning
		}
		probe(t, patternProbe, map[string]any{"s": s, "p": p, "r": r, "i": int64(i % 30)})
	})
}

func FuzzFormatAgrees(f *testing.F) {
	for _, s := range []string{"%d", "%5.1f", "%-5s|", "%q", "%x %X %o", "%c", "%g", "%e", "%%", "%05d", "%+d", "% d", "%#x", "%.3s", "%10.4f", "%u", "%i", "%", "%z", "%5"} {
		f.Add(s, "text", 3.25, int64(65))
	}
	f.Fuzz(func(t *testing.T, format, s string, x float64, n int64) {
		if len(format) > 20 || math.IsNaN(x) || math.IsInf(x, 0) {
			t.Skip()
		}
		probe(t, `
call(string.format, obj.f, obj.n, obj.x)
call(string.format, obj.f, obj.x)
call(string.format, obj.f, obj.s, obj.s)
call(string.format, obj.f)`, map[string]any{"f": format, "s": "s" + s, "x": x, "n": n % (1 << 53)})
	})
}

func FuzzStringsAgree(f *testing.F) {
	f.Add("hello", "0x1F", 2, -2, 16)
	f.Add("a\x00b", " 10 ", -3, 9, 36)
	f.Add("ÄÖ", "1e5", 0, 0, 10)
	f.Add("", "-7.5e-3", -9, 99, 2)
	f.Fuzz(func(t *testing.T, s, number string, i, j, base int) {
		if len(s) > 40 || len(number) > 40 {
			t.Skip()
		}
		probe(t, `
local s, k, i, j, b = obj.s, obj.k, obj.i, obj.j, obj.b
call(string.sub, s, i) call(string.sub, s, i, j) call(string.byte, s, i) call(string.byte, s, i, j)
call(string.len, s) call(string.lower, s) call(string.upper, s) call(string.reverse, s) call(string.rep, s, i)
call(string.char, i, j) call(tonumber, k) call(tonumber, k, b) call(tostring, k) call(tostring, i) call(tostring, j / 8)
call(select, i, 1, 2, 3) call(select, "#", s, k) call(type, s) call(unpack, {1, 2, 3}, i, j) call(rawequal, s, k)
call(math.floor, j / 8) call(math.ceil, j / 8) call(math.fmod, i, j) call(math.modf, j / 8) call(math.max, i, j) call(math.min, i, j)
call(math.abs, i) call(math.sqrt, i) call(math.pow, i, 2) call(math.frexp, j / 8) call(math.ldexp, i, 3)
call(function() return s .. i .. k end) call(function() return #s end) call(function() return s == k, s < k, s <= k end)
call(function() return k + 1 end) call(function() return -k end) call(function() return i % j, i / j, i ^ 2 end)`,
			map[string]any{"s": s, "k": number, "i": int64(i % 60), "j": int64(j % 60), "b": int64(base % 40)})
	})
}

// FuzzTablesAgree reads ops as a program on one list.
func FuzzTablesAgree(f *testing.F) {
	for _, s := range []string{"iiipssrc", "iIiIiRrR", "aaaaddddl", "ia3da1n", "iiiiSc", "IIIrrrrr", "kKkKnx"} {
		f.Add(s, int64(7))
	}
	f.Fuzz(func(t *testing.T, ops string, seed int64) {
		if len(ops) > 40 {
			t.Skip()
		}
		probe(t, `
local t, seed = {}, obj.seed
local function random(n) seed = (seed * 16807 + 7) % 2147483647 return seed % n + 1 end
for c in string.gmatch(obj.ops, ".") do
	if c == "i" then call(table.insert, t, random(100))
	elseif c == "I" then call(table.insert, t, random(#t + 1), random(100))
	elseif c == "r" then call(table.remove, t)
	elseif c == "R" then if #t > 0 then call(table.remove, t, random(#t)) end
	elseif c == "s" then call(table.sort, t)
	elseif c == "S" then call(table.sort, t, function(a, b) return a > b end)
	elseif c == "c" then call(function() return "" .. table.concat(t, ",") end)
	elseif c == "C" then if #t > 0 then call(function() return "" .. table.concat(t, ";", random(#t), #t) end) end
	elseif c == "u" then call(unpack, t)
	elseif c == "a" then t[#t + 1] = random(100)
	elseif c == "d" then t[#t] = nil
	elseif c == "l" or c == "p" then call(function() return #t, table.getn(t) end)
	elseif c == "n" then local sum = 0 for k, v in pairs(t) do sum = sum * 31 % 65537 + v end note(sum)
	elseif c == "x" then for k in pairs(t) do t[k] = nil end t = {}
	elseif c == "k" then local u = {} for i, v in ipairs(t) do u["k" .. v] = i end local s = "" for k, v in pairs(u) do s = s .. k .. v end note(s)
	elseif c == "K" then local u = {t, a = t, [1.5] = 2} note(#u) note(next(u) ~= nil)
	end
end
for i, v in ipairs(t) do note(v) end`, map[string]any{"ops": ops, "seed": seed % 1000})
	})
}
