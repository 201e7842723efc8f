// Package script runs the Lua scripts that shape traffic objects, and finds them. It
// has the bounded engine, the conversion between JSON and Lua, and the library of
// built-in and configured scripts.
//
// It is not a general Lua host. Scripts get an allow-list of the standard library,
// with no files, no clock and no randomness. They cannot see each other. The package
// does not know Kubernetes either; callers pass and receive JSON-like values.
//
// Its one invariant: a run of any script ends, within its budgets, with a value or
// an *Error. The same script and input give the same value.
package script

import (
	"context"
	"fmt"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// Program is a compiled script. It is immutable: any number of goroutines may
// Run it at the same time.
type Program struct {
	name  string
	proto *lua.FunctionProto
	named int // members that the source assigns to by name
}

// Limits bound one run. A zero field means its default.
type Limits struct {
	Steps    int           // VM instructions, and work of library functions in the same unit; a large input raises it
	Bytes    int           // bytes of strings and tables that the script makes
	Deadline time.Duration // wall clock; the last resort behind the two budgets
	Depth    int           // nesting of input and output
	Nodes    int           // values in the output, shared tables counted each time
	Output   int           // bytes of strings and keys in the output
}

// The defaults are generous: the built-in scripts use a few hundred steps and some
// kilobytes. The deadline is the last resort: a script spends both budgets in 250 ms
// of processor time, and a busy machine must not stop a good script.
func (l Limits) orDefaults() Limits {
	or := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	or(&l.Steps, 200_000)
	or(&l.Bytes, 32<<20)
	or(&l.Depth, 64)
	or(&l.Nodes, 50_000)
	or(&l.Output, 1<<20)
	if l.Deadline <= 0 {
		l.Deadline = 10 * time.Second
	}
	return l
}

// Run executes the program in a fresh state whose global obj is input, and
// returns the first value that the script returns. Input and result consist of
// map[string]any, []any, string, bool, int64, float64, json.Number and nil;
// the input may also hold other integers and map[string]string. Neither shares
// memory with the other. A non-nil error is an *Error.
func (p *Program) Run(ctx context.Context, input any, limits Limits) (result any, err error) {
	r := newRun(ctx, p, limits.orDefaults())
	L := lua.NewState(lua.Options{
		SkipOpenLibs:        true,
		CallStackSize:       maxCalls,
		MinimizeStackMemory: true,
		RegistrySize:        128,
		RegistryGrowStep:    512,
		RegistryMaxSize:     maxRegistry,
	})
	defer L.Close()
	L.SetContext(r)
	r.state = L
	L.Panic = panicWithError
	defer func() {
		if rec := recover(); rec != nil {
			result, err = nil, p.runError(r, rec)
		}
	}()
	obj, err := r.toLua(input)
	if err != nil {
		return nil, &Error{Script: p.name, Kind: KindInput, Message: shorten(err.Error())}
	}
	r.grantSteps()
	openLibraries(L)
	L.G.Global.RawSetString("obj", obj)
	L.Push(L.NewFunctionFromProto(p.proto))
	L.Call(0, 1)
	result, err = r.fromLua(L.Get(-1))
	if err != nil {
		return nil, &Error{Script: p.name, Kind: KindOutput, Message: shorten(err.Error())}
	}
	return result, nil
}

const (
	maxCalls    = 200
	maxRegistry = 2048 // also bounds how many captured variables the engine searches at each return
)

// panicWithError is the state's panic handler. Unlike the default handler, it builds
// no stack trace: one line for each of a million tail calls costs more than the run.
func panicWithError(L *lua.LState) {
	panic(&lua.ApiError{Type: lua.ApiErrorRun, Object: L.Get(-1)})
}

// runError turns any cause that ended the run into an *Error.
func (p *Program) runError(r *run, rec any) *Error {
	e := &Error{Script: p.name, Kind: KindRuntime}
	api, ok := rec.(*lua.ApiError)
	switch {
	case rec == "lua callstack overflow":
		e.Line, e.Message = p.currentLine(r.state), fmt.Sprintf("stack overflow: calls are nested deeper than %d", maxCalls)
	case !ok:
		e.Line, e.Message = p.currentLine(r.state), shorten(fmt.Sprintf("the Lua engine failed: %v", rec))
	case api.Object == nil:
		e.Line, e.Message = p.currentLine(r.state), shorten(api.Error())
	case api.Object.Type() == lua.LTString || api.Object.Type() == lua.LTNumber:
		e.Line, e.Message = splitPosition(p.name, api.Object.String())
	default:
		e.Line = p.currentLine(r.state)
		e.Message = fmt.Sprintf("error raised with a %s instead of a message", api.Object.Type())
	}
	if r.stopped != "" {
		e.Kind, e.Message = r.stopped, r.Err().Error()
	}
	return e
}

// currentLine returns the line of the innermost function of the script when a panic
// ended the run. The stack still exists then; the line is 0 if it is unusable.
func (p *Program) currentLine(L *lua.LState) (line int) {
	defer func() { _ = recover() }()
	for level := range maxCalls {
		if _, ok := L.GetStack(level); !ok {
			break
		}
		if line, _ := splitPosition(p.name, L.Where(level)); line > 0 {
			return line
		}
	}
	return 0
}

// splitPosition splits the "name:line:" that Lua puts before a message from the
// message.
func splitPosition(name, message string) (line int, rest string) {
	after, ok := strings.CutPrefix(message, name+":")
	if !ok {
		return 0, shorten(message)
	}
	digits, rest, ok := strings.Cut(after, ":")
	if _, err := fmt.Sscanf(digits, "%d", &line); !ok || err != nil {
		return 0, shorten(message)
	}
	return line, shorten(strings.TrimPrefix(rest, " "))
}
