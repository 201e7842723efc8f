// Package luacompat runs the scripts that OpenKruise ships on OpenKruise's Lua engine and on Sluice's, and compares the
// results.
//
// It does not test Sluice's scripts, and copies no file: scripts, test cases and engine come from the released module,
// see kruise/go.mod. Its one invariant: the same script and obj give the same JSON on both engines, apart from the
// differences that normal hides.
package luacompat

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/script/cases"
)

func TestShippedScriptsGiveTheSameOnBothEngines(t *testing.T) {
	dir := moduleDir(t)
	engine := start(t)
	names, err := fs.Glob(os.DirFS(dir), "lua_configuration/*/*/trafficRouting.lua")
	if err != nil {
		t.Fatal(err)
	}
	ingress, err := fs.Glob(os.DirFS(dir), "lua_configuration/trafficrouting_ingress/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	others, err := fs.Glob(os.DirFS(dir), "pkg/trafficrouting/network/*/lua_configuration/*/*/trafficRouting.lua")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 2 || len(ingress) < 4 {
		t.Fatalf("the module in %s ships %d scripts for custom resources and %d for Ingress classes", dir, len(names), len(ingress))
	}
	for _, name := range append(names, others...) {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			engine.compare(t, filepath.Join(dir, name), append(shippedCases(t, dir, name), customInputs()...))
		})
	}
	for _, name := range ingress {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			engine.compare(t, filepath.Join(dir, name), ingressInputs())
		})
	}
}

// moduleDir returns the directory of OpenKruise Rollouts in the module cache.
func moduleDir(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "github.com/openkruise/rollouts")
	cmd.Dir = "kruise"
	text, err := cmd.Output()
	var module struct{ Dir, Error string }
	if err != nil || json.Unmarshal(text, &module) != nil || module.Dir == "" {
		t.Fatalf("download github.com/openkruise/rollouts: %v %s", err, text)
	}
	return module.Dir
}

// theirs is a running process of OpenKruise's engine.
type theirs struct {
	calls   *json.Encoder
	answers *json.Decoder
}

func start(t *testing.T) theirs {
	t.Helper()
	program := filepath.Join(t.TempDir(), "kruise")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = "kruise"
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build OpenKruise's engine: %v\n%s", err, text)
	}
	cmd := exec.Command(program)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	})
	return theirs{json.NewEncoder(in), json.NewDecoder(out)}
}

type outcome struct {
	Result any
	Failed string // the error of the script, or of the engine
}

// compare runs one script on all inputs on both engines.
func (e theirs) compare(t *testing.T, file string, inputs []input) {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := script.Compile(engineName, string(source))
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, in := range inputs {
		want, got := e.run(t, string(source), in.obj), ours(t, p, in.obj)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-OpenKruise +ours):\n%s", in.name, diff)
		}
		if got.Failed != "" {
			failed++
		}
	}
	t.Logf("%d inputs compared; the script refuses %d of them", len(inputs), failed)
}

func (e theirs) run(t *testing.T, source string, obj map[string]any) outcome {
	t.Helper()
	var answer struct {
		Result any
		Error  string
	}
	if err := e.calls.Encode(map[string]any{"script": source, "obj": obj}); err != nil {
		t.Fatal(err)
	}
	if err := e.answers.Decode(&answer); err != nil {
		t.Fatalf("OpenKruise's engine is gone: %v", errors.Join(err, io.ErrUnexpectedEOF))
	}
	return outcome{normal(answer.Result), complaint(answer.Error)}
}

func ours(t *testing.T, p *script.Program, obj map[string]any) outcome {
	t.Helper()
	v, err := p.Run(t.Context(), obj, script.Limits{})
	var e *script.Error
	if errors.As(err, &e) {
		return outcome{Failed: complaint(e.Message)}
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var result any
	if err := json.Unmarshal(text, &result); err != nil {
		t.Fatal(err)
	}
	return outcome{Result: normal(result)}
}

// engineName is the name of each script in errors of OpenKruise's engine.
const engineName = "<string>"

var position = regexp.MustCompile(`^<string>:\d+: `)

// complaint returns the first line of an error without its position.
func complaint(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return position.ReplaceAllString(line, "")
}

// normal hides intended improvements: OpenKruise's engine turns empty lists and objects into null, and drops null
// members.
func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			if e = normal(e); e != nil {
				out[k] = e
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		if len(v) == 0 {
			return nil
		}
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = normal(e)
		}
		return out
	}
	return v
}

// shippedCases returns the steps of OpenKruise's own test cases of a script.
func shippedCases(t *testing.T, dir, name string) []input {
	t.Helper()
	files, err := fs.Glob(os.DirFS(dir), filepath.Join(filepath.Dir(name), "testdata", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var out []input
	for _, f := range files {
		c, err := cases.LoadCase(os.DirFS(dir), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range c.Steps {
			out = append(out, input{"shipped case " + c.Name(), step.LuaObject()})
		}
	}
	return out
}
