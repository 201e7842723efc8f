package script

import (
	"embed"
	"encoding/json"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//go:embed testdata/hostile/*.lua
var hostileFiles embed.FS

// hostileScript is a script that tries to do harm. The first line of its file says
// how it must end: "-- ends with: " and a Kind, or "a value".
type hostileScript struct {
	name, source string
	want         Kind
}

// aValue: the script ends in time, with a value that the engine may return. Later
// checks decide whether it may be written to a gateway.
const aValue Kind = "a value"

func hostileScripts(t testing.TB) []hostileScript {
	t.Helper()
	files, err := fs.Glob(hostileFiles, "testdata/hostile/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	all := hostileSources()
	for _, f := range files {
		text, err := fs.ReadFile(hostileFiles, f)
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(string(text), "\n")
		want, ok := strings.CutPrefix(head, "-- ends with: ")
		if !ok {
			t.Fatalf("%s does not begin with how it ends", f)
		}
		all = append(all, hostileScript{strings.TrimSuffix(path.Base(f), ".lua"), string(text), Kind(want)})
	}
	return all
}

// hostileSources are scripts that are too long for a file, or not text that an
// editor keeps.
func hostileSources() []hostileScript {
	repeated := func(head, body string, n int, tail string) string {
		return head + strings.Repeat(body, n) + tail
	}
	numbered := func(head, body string, n int, tail string) string {
		var b strings.Builder
		b.WriteString(head)
		for i := range n {
			b.WriteString(strings.ReplaceAll(body, "#", "v"+string(rune('a'+i/676%26))+string(rune('a'+i/26%26))+string(rune('a'+i%26))))
		}
		return b.String() + tail
	}
	return []hostileScript{
		{"a sum of 30000 terms", repeated("return 1", "+a", 30000, ""), KindTooLarge},
		{"powers", repeated("return 1", "^a", 30000, ""), KindTooLarge},
		{"concatenations", repeated("return 'x'", "..a", 19000, ""), KindTooLarge},
		{"nested blocks", repeated("", "do ", 8000, repeated("", " end", 8000, "")), KindTooLarge},
		{"nested ifs", repeated("", "if a then ", 4000, repeated("", " end", 4000, "")), KindTooLarge},
		{"nested loops", repeated("", "for i=1,9 do ", 3000, repeated("", " end", 3000, "")), KindTooLarge},
		{"an elseif chain", repeated("if a then", " elseif a then", 4000, " end"), KindTooLarge},
		{"nested functions", repeated("return ", "function() return ", 2600, repeated("1", " end", 2600, "")), KindTooLarge},
		{"a field chain", repeated("return a", ".a", 30000, ""), KindTooLarge},
		{"an index chain", repeated("return a", "[1]", 20000, ""), KindTooLarge},
		{"nested tables", repeated("return ", "{", 30000, repeated("", "}", 30000, "")), KindTooLarge},
		{"nested parentheses", repeated("return ", "(", 30000, repeated("1", ")", 30000, "")), KindOutput},
		{"unary minus", repeated("return ", "- ", 30000, "1"), KindTooLarge},
		{"lengths of lengths", repeated("return ", "#", 60000, "''"), KindTooLarge},
		{"not", repeated("return ", "not ", 15000, "1"), KindTooLarge},
		{"a chain of and", repeated("return 1", " and a", 10000, ""), KindTooLarge},
		{"a chain of comparisons", repeated("return 1", "<a", 30000, ""), KindTooLarge},
		{"calls of calls", repeated("return a", "()", 30000, ""), KindTooLarge},
		{"calls without parentheses", repeated("return a", "''", 30000, ""), KindTooLarge},
		{"method calls of method calls", repeated("return a", ":b()", 15000, ""), KindTooLarge},
		{"too many locals", repeated("", "local a = 1 ", 300, ""), KindSyntax},
		{"many parameters", numbered("local function f(", "#,", 1000, "z) end"), KindSyntax},
		{"many constants", repeated("local t = {", "'a',", 15000, "} return t"), KindOutput},
		{"many different constants", numbered("local t = {", "'#',", 9000, "} while true do end"), KindTooLarge},
		{"as many different constants as there may be", numbered("local t = {", "'#',", 2990, "} while true do end"), KindSteps},
		{"many different names", numbered("", "#=1 ", 2990, "while true do end"), KindSteps},
		{"many labels", numbered("", "::#:: ", 6000, ""), KindOutput},
		{"many jumps", numbered("", "do goto # end ", 2500, numbered("", "::#:: ", 2500, "while true do end")), KindSteps},
		{"many functions", repeated("", "f=function() end ", 3000, "while true do end"), KindTooLarge},
		{"as many functions as there may be", repeated("", "f=function() end ", 990, "while true do end"), KindSteps},
		{"many targets", numbered("a", ",#", 2900, "=1"), KindSyntax},
		{"one long string", repeated("local s='", "x", 65000, "' local t={} while true do t[s]=1 end"), KindSteps},
		{"a long string as a name", repeated("local t={} while true do local v=t['", "x", 65000, "'] end"), KindSteps},
		{"a long string to compare", repeated("local s='", "x", 32000, repeated("' while s..''=='", "x", 32000, "' do end")), KindSteps},
		{"one long number", repeated("return 1", "0", 60000, ""), KindOutput},
		{"one long hexadecimal number", repeated("return 0x", "f", 60000, ""), KindOutput},
		{"a huge exponent", repeated("return 1e", "9", 60000, ""), KindOutput},
		{"one long comment", repeated("--", "x", 65000, "\nreturn 1"), KindOutput},
		{"many comments", repeated("", "--[[x]]", 9000, "while true do end"), KindSteps},
		{"brackets of many levels", repeated("return [", "=", 60000, "[x"), KindSyntax},
		{"brackets that nearly close", repeated("return [==[", "]=]", 20000, ""), KindSyntax},
		{"escapes", repeated("return '", `\065`, 16000, "' .. nil"), KindRuntime},
		{"blank lines", repeated("", "\n", 65000, "error('x')"), KindRuntime},
		{"a source of a megabyte", repeated("", "-- x\n", 250000, ""), KindTooLarge},
		{"an unterminated string", "local a = \"gray\nreturn a", KindSyntax},
		{"an unterminated comment", "--[[ x", KindSyntax},
		{"a source of zero bytes", "\x00\x00\x00", KindSyntax},
		{"a source of no text", "\xff\xfe\xfd", KindSyntax},
		{"a break outside of a loop", "break", KindSyntax},
		{"a goto without label", "goto nowhere", KindSyntax},
		{"the operators of the engine", "local f = \"" + opStore + "\" return f({}, 1, 2)", KindTooLarge},
		{"a name of zero bytes", "\x00 = 1", KindSyntax},
	}
}

// goodCall renders a VirtualService, and returns the output as text.
func goodCall(t testing.TB) string {
	t.Helper()
	out, err := builtinProgram(t, "VirtualService").Render(t.Context(), weightInput(2, 20), unhurried)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestHostileScriptsKeepTheLimits measures time and memory of each script, without
// the race detector.
func TestHostileScriptsEndAsTyped(t *testing.T) {
	good := goodCall(t)
	for _, h := range hostileScripts(t) {
		t.Run(h.name, func(t *testing.T) {
			p, err := Compile("dock.lua", h.source)
			if err == nil {
				_, err = p.Render(t.Context(), weightInput(2, 20), unhurried)
			}
			if diff := cmp.Diff(h.want, checkedKind(t, err)); diff != "" {
				t.Errorf("%s\nerror: %v", diff, err)
			}
			if diff := cmp.Diff(good, goodCall(t)); diff != "" {
				t.Errorf("the next run of another script is not the same:\n%s", diff)
			}
		})
	}
}

// checkedKind also checks the common properties of all errors of scripts.
func checkedKind(t *testing.T, err error) Kind {
	t.Helper()
	if err == nil {
		return aValue
	}
	e, ok := err.(*Error)
	if !ok {
		t.Fatalf("error %v is no *Error", err)
	}
	if len(e.Message) > maxMessage || strings.Contains(e.Message, "stack traceback") {
		t.Errorf("bad message: %q", e.Message)
	}
	if strings.Contains(e.Message, "engine failed") || strings.Contains(e.Message, "compiler failed") {
		t.Errorf("the engine panicked: %v", e)
	}
	if e.Script != "dock.lua" {
		t.Errorf("the error names script %q", e.Script)
	}
	ofNoLine := e.Kind == KindOutput || strings.Contains(e.Message, "a script may have")
	if e.Line == 0 && !ofNoLine {
		t.Errorf("the error names no line: %v", e)
	}
	return e.Kind
}
