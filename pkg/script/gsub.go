package script

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

func stringGsub(L *lua.LState) int {
	src, pat := L.CheckString(1), L.CheckString(2)
	repl := L.Get(3)
	switch repl.Type() {
	case lua.LTString, lua.LTNumber, lua.LTTable, lua.LTFunction:
	default:
		L.ArgError(3, "string/function/table expected")
	}
	limit := L.OptInt(4, len(src)+1)
	from := 0
	if strings.HasPrefix(pat, "^") {
		from = 1
	}
	g := substitution{matcher: newMatcher(L, src, pat), repl: repl}
	s, count := 0, 0
	for count < limit {
		e := g.matchAt(s, from)
		if e != noMatch {
			count++
			g.replaceMatch(s, e)
		}
		switch {
		case e > s:
			s = e
		case s < len(src):
			g.writeText(src[s : s+1])
			s++
		default:
			limit = 0
		}
		if from == 1 {
			break
		}
	}
	g.writeText(src[s:])
	L.Push(lua.LString(g.out.String()))
	L.Push(lua.LNumber(count))
	return 2
}

// substitution builds the result in one buffer and charges for each piece.
type substitution struct {
	*matcher
	repl lua.LValue
	out  strings.Builder
}

func (g *substitution) writeText(s string) {
	if g.out.Len()+len(s) > maxString {
		g.run.chargeString(g.L, maxString+1)
	}
	g.run.chargeBytes(g.L, len(s))
	g.out.WriteString(s)
}

func (g *substitution) replaceMatch(s, e int) {
	var v lua.LValue
	switch repl := g.repl.(type) {
	case *lua.LTable:
		v = g.L.GetTable(repl, g.captureValue(0, s, e))
	case *lua.LFunction:
		g.L.Push(repl)
		n := g.pushCaptures(s, e, true)
		g.L.Call(n, 1)
		v = g.L.Get(-1)
		g.L.Pop(1)
	default:
		g.expandReplacement(repl.String(), s, e)
		return
	}
	if !lua.LVAsBool(v) {
		g.writeText(g.src[s:e])
		return
	}
	if !lua.LVCanConvToString(v) {
		g.raiseError("invalid replacement value (a " + v.Type().String() + ")")
	}
	g.writeText(v.String())
}

// expandReplacement writes the replacement text with %0 to %9 filled in.
func (g *substitution) expandReplacement(text string, s, e int) {
	for {
		i := strings.IndexByte(text, '%')
		if i < 0 || i+1 == len(text) {
			g.writeText(text)
			return
		}
		g.countUnit()
		g.writeText(text[:i])
		switch c := text[i+1]; {
		case c == '0':
			g.writeText(g.src[s:e])
		case isDigit(c):
			g.writeText(g.captureValue(int(c-'1'), s, e).String())
		default:
			g.writeText(text[i+1 : i+2])
		}
		text = text[i+2:]
	}
}
