package script

import (
	"math"

	lua "github.com/yuin/gopher-lua"
)

// There is no random: a script gives the same result each time it is asked.
var mathFunctions = map[string]lua.LGFunction{
	"abs": of1(math.Abs), "acos": of1(math.Acos), "asin": of1(math.Asin), "atan": of1(math.Atan), "ceil": of1(math.Ceil),
	"cos": of1(math.Cos), "cosh": of1(math.Cosh), "exp": of1(math.Exp), "floor": of1(math.Floor), "log": of1(math.Log),
	"log10": of1(math.Log10), "sin": of1(math.Sin), "sinh": of1(math.Sinh), "sqrt": of1(math.Sqrt), "tan": of1(math.Tan),
	"tanh": of1(math.Tanh), "atan2": of2(math.Atan2), "fmod": of2(math.Mod), "pow": of2(math.Pow),
	"deg": of1(func(x float64) float64 { return x * 180 / math.Pi }),
	"rad": of1(func(x float64) float64 { return x * math.Pi / 180 }),
	"max": fold(func(a, b lua.LNumber) bool { return b > a }), "min": fold(func(a, b lua.LNumber) bool { return b < a }),
	"modf": mathModf, "frexp": mathFrexp, "ldexp": mathLdexp,
}

var mathConstants = map[string]lua.LValue{"pi": lua.LNumber(math.Pi), "huge": lua.LNumber(math.Inf(1))}

func of1(f func(float64) float64) lua.LGFunction {
	return func(L *lua.LState) int {
		L.Push(lua.LNumber(f(float64(L.CheckNumber(1)))))
		return 1
	}
}

func of2(f func(a, b float64) float64) lua.LGFunction {
	return func(L *lua.LState) int {
		L.Push(lua.LNumber(f(float64(L.CheckNumber(1)), float64(L.CheckNumber(2)))))
		return 1
	}
}

func fold(better func(a, b lua.LNumber) bool) lua.LGFunction {
	return func(L *lua.LState) int {
		best := L.CheckNumber(1)
		for i := 2; i <= L.GetTop(); i++ {
			if n := L.CheckNumber(i); better(best, n) {
				best = n
			}
		}
		L.Push(best)
		return 1
	}
}

func mathModf(L *lua.LState) int {
	whole, part := math.Modf(float64(L.CheckNumber(1)))
	L.Push(lua.LNumber(whole))
	L.Push(lua.LNumber(part))
	return 2
}

func mathFrexp(L *lua.LState) int {
	m, e := math.Frexp(float64(L.CheckNumber(1)))
	L.Push(lua.LNumber(m))
	L.Push(lua.LNumber(e))
	return 2
}

func mathLdexp(L *lua.LState) int {
	L.Push(lua.LNumber(math.Ldexp(float64(L.CheckNumber(1)), L.CheckInt(2))))
	return 1
}
