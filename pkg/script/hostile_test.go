package script

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
)

// anything: the script may also end with a value.
const anything Kind = "value"

// repeated builds sources that are too long to write down.
func repeated(head, body string, n int, tail string) string {
	return head + strings.Repeat(body, n) + tail
}

func TestHostileScriptsEndWithinTheirBudget(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		want   Kind
	}{
		// Time.
		"endless loop":                      {`while true do end`, KindSteps},
		"endless loop behind pcall":         {`while true do pcall(function() while true do end end) end`, KindSteps},
		"nested pcalls":                     {`local function f() pcall(f) pcall(f) end while true do f() end`, KindSteps},
		"recursion":                         {`local function f() return 1 + f() end return f()`, KindRuntime},
		"endless tail calls":                {`local function f() return f() end return f()`, KindRuntime},
		"tail calls, then errors":           {`local function f(n) if n > 0 then return f(n - 1) end while true do pcall(error, "x") end end return f(30000)`, KindRuntime},
		"errors caught in a loop":           {`while true do pcall(error, ("x"):rep(1000)) end`, KindSteps},
		"pcall of pcall of pcall":           {`local p = pcall while true do p(p, p, p, p, p, error) end`, KindSteps},
		"a numeric loop of 1e18 rounds":     {`for i = 1, 1e18 do end`, KindSteps},
		"a loop with step 0":                {`for i = 1, 2, 0 do end`, anything},
		"an endless iterator":               {`for k in function() return 1 end do end`, KindSteps},
		"goto backwards":                    {`::a:: goto a`, KindSteps},
		"sort with a comparison that loops": {`table.sort({3, 2, 1}, function() while true do end end)`, KindSteps},
		"sort without order":                {`local t = {} for i = 1, 5000 do t[i] = i end table.sort(t, function() return true end)`, KindSteps},
		"sort of equal long strings":        {`local t = {} for i = 1, 3000 do t[i] = ("x"):rep(900) .. "y" end for i = 1, 100 do table.sort(t) end`, KindSteps},
		"gsub calls a function that loops":  {`("abc"):gsub(".", function() while true do end end)`, KindSteps},
		"next over deleted keys":            {`local t = {} for i = 1, 1500 do t["k" .. i] = i end while next(t) do t[next(t)] = nil end`, anything},
		"length of a stretched table":       {`local t = {} for i = 1, 16000 do t[i] = i end for i = 16000, 2, -1 do t[i] = nil end for i = 1, 1e5 do local n = #t end`, anything},
		// Patterns.
		"lazy pattern":                       {`return (("a"):rep(5000)):match(".-.-.-.-b")`, KindSteps},
		"many lazy items":                    {`return (("a"):rep(300)):match(("a-"):rep(12) .. "b")`, KindSteps},
		"many greedy items":                  {`return (("a"):rep(300)):match(("a*"):rep(20) .. "b")`, KindSteps},
		"back-references on long text":       {`return (("x"):rep(200000)):find("(.-)%1b")`, KindSteps},
		"nested captures":                    {`return ("x"):match(("("):rep(100) .. "x" .. (")"):rep(100))`, KindRuntime},
		"optional items":                     {`return (("a"):rep(30)):match(("a?"):rep(30) .. ("a"):rep(31))`, KindSteps},
		"deep pattern":                       {`return (("a"):rep(1000)):match(("a?"):rep(1000))`, KindRuntime},
		"balanced match from every position": {`return (("("):rep(100000)):find("%b()")`, KindSteps},
		"a set of 100 kB":                    {`return (("a"):rep(1000)):find("[" .. ("b"):rep(100000) .. "]c")`, KindSteps},
		"gsub at every position":             {`local s = ("a"):rep(250000) for i = 1, 1e6 do s:gsub("a", "b") end`, KindSteps},
		"gsub that grows":                    {`local s = "a" while true do s = s:gsub("a", "aa") end`, KindBytes},
		"gmatch of nothing":                  {`for i = 1, 1e6 do for w in (("a"):rep(200000)):gmatch("b") do end end`, KindSteps},
		"a pattern that ends in the middle":  {`return ("x"):find("[a")`, KindRuntime},
		"a pattern that ends with percent":   {`return ("x"):find("%")`, KindRuntime},
		"an unopened capture":                {`return ("x"):match("x)")`, KindRuntime},
		"frontier at the end of the pattern": {`return ("x"):find("%f")`, KindRuntime},
		"balance without characters":         {`return ("x"):find("%b")`, KindRuntime},
		"a set that ends with percent":       {`return ("x"):find("[%")`, KindRuntime},
		// Memory.
		"string.rep of a terabyte":           {`return string.rep("x", 1e12)`, KindBytes},
		"string.rep overflow":                {`return string.rep("xx", 2^62)`, KindBytes},
		"string.rep of nothing":              {`return string.rep("", 1e18)`, anything},
		"doubling":                           {`local s = "x" while true do s = s .. s end`, KindBytes},
		"many strings":                       {`local t = {} while true do t[#t + 1] = ("x"):rep(100000) end`, KindSteps},
		"many tables":                        {`local t = {} for i = 1, 1e9 do t[i] = {} t[i].a = 1 end`, KindBytes},
		"many tables by table.create":        {`local t = {} for i = 1, 1e9 do t[i] = table.create(1e9) end`, KindBytes},
		"stretched tables":                   {`local t = {} for i = 1, 16000 do local u = {} u[16000] = 1 t[i] = u end`, KindSteps},
		"stretched constructors":             {`local t = {} for i = 1, 16000 do t[i] = {[16000] = 1} end`, KindSteps},
		"stretched by multiple assignment":   {`local t = {} for i = 1, 16000 do local u, v = {}, {} u[16000], v[16000] = 1, 2 t[i] = {u, v} end`, KindSteps},
		"insert far away":                    {`table.insert({}, 6e7, 1)`, KindRuntime},
		"far keys":                           {`local t = {} for i = 1, 60 do t[67108863 - i] = 1 end return #t`, anything},
		"unpack of a huge range":             {`return select("#", unpack({}, 1, 1e8))`, KindRuntime},
		"unpack of an overflowing range":     {`return unpack({}, -2^62, 2^62)`, KindRuntime},
		"string.byte of everything":          {`return (("x"):rep(100000)):byte(1, -1)`, KindRuntime},
		"vararg tables":                      {`local t = {} local function f(...) for i = 1, 1e9 do t[i] = {...} end end f(unpack({}, 1, 200))`, KindBytes},
		"varargs that grow":                  {`local function f(...) return f(1, ...) end return f()`, KindRuntime},
		"the arg table of Lua 5.0":           {`local t = {} local function f(...) t[#t + 1] = arg end while true do f(1, 2, 3) end`, KindSteps},
		"table.concat of everything":         {`local t = {} for i = 1, 1000 do t[i] = ("x"):rep(1000) end while true do t[1] = table.concat(t) end`, KindBytes},
		"table.concat with a long separator": {`return table.concat({1, 2, 3, 4, 5}, ("x"):rep(100000))`, KindBytes},
		"format with a huge width":           {`return string.format("%999999d", 1)`, KindRuntime},
		"format of many fields":              {`return string.format(("%99d"):rep(4000), unpack({}, 1, 200))`, KindRuntime},
		"reversing for ever":                 {`local s = ("x"):rep(200000) while true do s = s:reverse() end`, KindSteps},
		"upper for ever":                     {`local s = ("x"):rep(200000) while true do s = s:upper() end`, KindSteps},
		"tonumber of long text":              {`local s = ("1"):rep(250000) while true do tonumber(s) end`, KindSteps},
		"closures":                           {`local t = {} while true do t[#t + 1] = function() return t end end`, KindSteps},
		"gmatch iterators":                   {`local t = {} while true do t[#t + 1] = ("x"):gmatch("x") end`, KindSteps},
		"json.decode of many arrays":         {`return json.decode("[" .. ("[],"):rep(80000) .. "1]")`, KindBytes},
		"json.decode of deep arrays":         {`return json.decode(("["):rep(100000))`, KindRuntime},
		"json.encode for ever":               {`local t = {} for i = 1, 1000 do t[i] = "x" end while true do json.encode(t) end`, KindSteps},
		// Results.
		"a result that contains itself": {`local t = {} t.t = t return t`, KindOutput},
		"a deep result":                 {`local t = {} local r = t for i = 1, 5000 do local n = {} t[1] = n t = n end return r`, KindOutput},
		"a wide result":                 {`local t = {} for i = 1, 12000 do t[i] = i end return {t, t, t, t, t}`, KindOutput},
		"a result that doubles":         {`local t = {1} for i = 1, 40 do t = {t, t} end return t`, KindOutput},
		"a result of repeated text":     {`local s = ("x"):rep(100000) local t = {} for i = 1, 1000 do t[i] = s end return t`, KindOutput},
		"NaN in the result":             {`return {x = 0 / 0}`, KindOutput},
		"infinity in the result":        {`return {x = 1 / 0}`, KindOutput},
		"a function in the result":      {`return {x = print}`, KindOutput},
		"mixed keys in the result":      {`return {1, a = 2}`, KindOutput},
		"a sparse list in the result":   {`local t = {} t[1], t[3] = 1, 3 return t`, KindOutput},
		"boolean keys in the result":    {`return {[true] = 1}`, KindOutput},
		"bytes that are no text":        {`return "\0\255" .. ("\0"):rep(3)`, anything},
		// Errors.
		"a long error":                 {`error(("x"):rep(200000))`, KindRuntime},
		"an error without message":     {`error()`, KindRuntime},
		"a table as error":             {`error({})`, KindRuntime},
		"a function as error":          {`error(print)`, KindRuntime},
		"an error at a far level":      {`error("x", 2^53)`, KindRuntime},
		"an error at a negative level": {`error("x", -5)`, KindRuntime},
		"format verbs in an error":     {`error("%s %d %!")`, KindRuntime},
		"NaN as key":                   {`local t = {} t[0 / 0] = 1`, KindRuntime},
		"nil as key":                   {`local t = {} t[nil] = 1`, KindRuntime},
		"select from far behind":       {`return select(-2^31, 1)`, KindRuntime},
		"calling nil":                  {`nothing()`, KindRuntime},
		// What must not be there.
		"load":                        {`loadstring("return 1")()`, KindRuntime},
		"files":                       {`dofile("/dev/zero")`, KindRuntime},
		"require":                     {`require("os")`, KindRuntime},
		"environments":                {`setfenv(1, {})`, KindRuntime},
		"metatables":                  {`setmetatable({}, {__index = function() while true do end end})`, KindRuntime},
		"the metatable of strings":    {`getmetatable("").__index = nil`, KindRuntime},
		"collectgarbage":              {`while true do collectgarbage() end`, KindRuntime},
		"math.random":                 {`return math.random(0)`, KindRuntime},
		"string.dump":                 {`return string.dump(print)`, KindRuntime},
		"newproxy":                    {`newproxy(true)`, KindRuntime},
		"coroutines":                  {`coroutine.wrap(function() end)()`, KindRuntime},
		"the operators of the engine": {"local f = \"\x00store\" return f", anything},
		// Sources.
		"a sum of 30000 terms":      {repeated("return 1", "+a", 30000, ""), KindTooLarge},
		"powers":                    {repeated("return 1", "^a", 30000, ""), KindTooLarge},
		"concatenations":            {repeated("return 1", "..a", 20000, ""), anything},
		"nested blocks":             {repeated("", "do ", 8000, repeated("", " end", 8000, "")), KindTooLarge},
		"nested ifs":                {repeated("", "if a then ", 4000, repeated("", " end", 4000, "")), KindTooLarge},
		"an elseif chain":           {repeated("if a then", " elseif a then", 4000, " end"), KindTooLarge},
		"nested functions":          {repeated("return ", "function() return ", 3000, repeated("1", " end", 3000, "")), KindTooLarge},
		"a field chain":             {repeated("return a", ".a", 30000, ""), KindTooLarge},
		"nested tables":             {repeated("return ", "{", 30000, repeated("", "}", 30000, "")), KindTooLarge},
		"nested parentheses":        {repeated("return ", "(", 30000, repeated("1", ")", 30000, "")), anything},
		"unary minus":               {repeated("return ", "- ", 30000, "1"), KindTooLarge},
		"not":                       {repeated("return ", "not ", 15000, "1"), KindTooLarge},
		"calls of calls":            {repeated("return a", "()", 30000, ""), KindTooLarge},
		"too many locals":           {repeated("", "local a = 1 ", 300, ""), KindSyntax},
		"many constants":            {repeated("local t = {", "'a',", 15000, "}"), anything},
		"a source of a megabyte":    {repeated("", "-- x\n", 250000, ""), KindTooLarge},
		"an unterminated string":    {"local a = \"gray\nreturn a", KindSyntax},
		"an unterminated comment":   {"--[[ x", KindSyntax},
		"a source of zero bytes":    {"\x00\x00\x00", KindSyntax},
		"a break outside of a loop": {"break", KindSyntax},
		"a goto without label":      {"goto nowhere", KindSyntax},
	} {
		t.Run(name, func(t *testing.T) {
			before := processTime(t)
			_, err := run1(t, c.source, map[string]any{"a": int64(1)})
			spent := processTime(t) - before
			t.Logf("%v of processor time: %v", spent, err)
			if spent > 250*time.Millisecond*slowdown {
				t.Errorf("took %v of processor time", spent)
			}
			var e *Error
			if err != nil && !errors.As(err, &e) {
				t.Fatalf("error %v is no *Error", err)
			}
			if e != nil && (len(e.Message) > maxMessage || strings.Contains(e.Message, "stack traceback")) {
				t.Errorf("bad message: %q", e.Message)
			}
			switch {
			case c.want == anything:
			case e == nil:
				t.Errorf("got a value, want kind %s", c.want)
			case e.Kind != c.want:
				t.Errorf("got kind %s (%v), want %s", e.Kind, e, c.want)
			}
		})
	}
}

// processTime is what the process has used so far; unlike the wall clock it is
// no matter of what else the machine does.
func processTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
