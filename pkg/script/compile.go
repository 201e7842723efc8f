package script

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// Bounds of a source. The engine's compiler needs minutes for some sources of a
// megabyte, and the caller cannot interrupt it. So Compile checks size, depth and
// number of nodes before it calls the compiler.
const (
	maxSource = 64 << 10
	maxDepth  = 100
	maxNodes  = 20_000
	maxArray  = 1 << 14

	maxConstants = 3000 // different ones; the compiler compares each with all others
	maxFunctions = 1000

	maxName     = 200 // bytes of a name: each stack frame of an error shows one
	maxCaptured = 60  // upvalues of a function, as in Lua 5.1
)

// setArrayLimit bounds how far one assignment may stretch a table. The engine has
// this limit only as a variable of its package. It is set once, before the first
// program exists, and never changed.
var setArrayLimit = sync.OnceFunc(func() { lua.MaxArrayIndex = maxArray })

// Compile parses source and makes it ready to run. The name appears in errors; a
// non-nil error is an *Error of kind KindSyntax or KindTooLarge.
func Compile(name, source string) (prog *Program, err error) {
	setArrayLimit()
	if len(source) > maxSource {
		return nil, &Error{Script: name, Kind: KindTooLarge,
			Message: fmt.Sprintf("the script has %d bytes; a script may have %d", len(source), maxSource)}
	}
	defer func() {
		if rec := recover(); rec != nil {
			prog, err = nil, &Error{Script: name, Kind: KindSyntax, Message: shorten(fmt.Sprintf("the Lua compiler failed: %v", rec))}
		}
	}()
	chunk, err := parse.Parse(strings.NewReader(source), name)
	if err != nil {
		return nil, syntaxError(name, source, err)
	}
	rw := rewriter{constants: map[string]struct{}{}}
	chunk = rw.rewriteBlock(chunk, 0)
	if rw.refusal != "" {
		return nil, &Error{Script: name, Kind: KindTooLarge, Line: rw.line, Message: rw.refusal}
	}
	chunk = rw.touchVarargs(chunk, &ast.DoBlockStmt{})
	proto, err := lua.Compile(chunk, name)
	if err != nil {
		return nil, syntaxError(name, source, err)
	}
	if line := tooManyCaptures(proto); line > 0 {
		return nil, &Error{Script: name, Kind: KindTooLarge, Line: line,
			Message: fmt.Sprintf("the function captures more than %d variables of the functions around it", maxCaptured)}
	}
	bindOperators(proto)
	return &Program{name: name, proto: proto, named: rw.named}, nil
}

// tooManyCaptures returns the line of a function with too many upvalues, or 0.
func tooManyCaptures(proto *lua.FunctionProto) int {
	if len(proto.DbgUpvalues) > maxCaptured {
		return max(proto.LineDefined, 1)
	}
	for _, p := range proto.FunctionPrototypes {
		if line := tooManyCaptures(p); line > 0 {
			return line
		}
	}
	return 0
}

func syntaxError(name, source string, err error) *Error {
	e := &Error{Script: name, Kind: KindSyntax}
	var pe *parse.Error
	var ce *lua.CompileError
	switch {
	case errors.As(err, &pe) && pe.Pos.Line < 0:
		e.Line = 1 + strings.Count(strings.TrimRight(source, "\n"), "\n")
		e.Message = pe.Message + " at the end of the script"
	case errors.As(err, &pe):
		e.Line = pe.Pos.Line
		if pe.Pos.Column == 0 && strings.HasPrefix(pe.Message, "unterminated string") {
			e.Line-- // the parser has already read the line break
		}
		e.Message = shorten(fmt.Sprintf("%s near '%s'", pe.Message, strings.TrimSpace(pe.Token)))
	case errors.As(err, &ce):
		e.Line, e.Message = max(ce.Line, 1), shorten(ce.Message)
	default:
		e.Message = shorten(err.Error())
	}
	return e
}

// copyPosition copies the position of a node to the node that replaces it.
func copyPosition[T ast.PositionHolder](to T, from ast.PositionHolder) T {
	to.SetLine(from.Line())
	to.SetLastLine(from.LastLine())
	return to
}
