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
		e := g.at(s, from)
		if e != noMatch {
			count++
			g.replace(s, e)
		}
		switch {
		case e > s:
			s = e
		case s < len(src):
			g.write(src[s : s+1])
			s++
		default:
			limit = 0
		}
		if from == 1 {
			break
		}
	}
	g.write(src[s:])
	L.Push(lua.LString(g.out.String()))
	L.Push(lua.LNumber(count))
	return 2
}

// substitution builds the result in one buffer and pays for each piece.
type substitution struct {
	*matcher
	repl lua.LValue
	out  strings.Builder
}

func (g *substitution) write(s string) {
	if g.out.Len()+len(s) > maxString {
		g.run.text(g.L, maxString+1)
	}
	g.run.alloc(g.L, len(s))
	g.out.WriteString(s)
}

func (g *substitution) replace(s, e int) {
	var v lua.LValue
	switch repl := g.repl.(type) {
	case *lua.LTable:
		v = g.L.GetTable(repl, g.value(0, s, e))
	case *lua.LFunction:
		g.L.Push(repl)
		n := g.push(s, e, true)
		g.L.Call(n, 1)
		v = g.L.Get(-1)
		g.L.Pop(1)
	default:
		g.expand(repl.String(), s, e)
		return
	}
	if !lua.LVAsBool(v) {
		g.write(g.src[s:e])
		return
	}
	if !lua.LVCanConvToString(v) {
		g.fail("invalid replacement value (a " + v.Type().String() + ")")
	}
	g.write(v.String())
}

// expand writes the replacement text with %0 to %9 filled in.
func (g *substitution) expand(text string, s, e int) {
	for {
		i := strings.IndexByte(text, '%')
		if i < 0 || i+1 == len(text) {
			g.write(text)
			return
		}
		g.tick()
		g.write(text[:i])
		switch c := text[i+1]; {
		case c == '0':
			g.write(g.src[s:e])
		case isDigit(c):
			g.write(g.value(int(c-'1'), s, e).String())
		default:
			g.write(text[i+1 : i+2])
		}
		text = text[i+2:]
	}
}
