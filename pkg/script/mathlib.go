package script

import (
	"math"

	lua "github.com/yuin/gopher-lua"
)

// There is no random, because a script must give the same result each time.
var mathFunctions = map[string]lua.LGFunction{
	"abs": unaryFunction(math.Abs), "acos": unaryFunction(math.Acos), "asin": unaryFunction(math.Asin), "atan": unaryFunction(math.Atan), "ceil": unaryFunction(math.Ceil),
	"cos": unaryFunction(math.Cos), "cosh": unaryFunction(math.Cosh), "exp": unaryFunction(math.Exp), "floor": unaryFunction(math.Floor), "log": unaryFunction(math.Log),
	"log10": unaryFunction(math.Log10), "sin": unaryFunction(math.Sin), "sinh": unaryFunction(math.Sinh), "sqrt": unaryFunction(math.Sqrt), "tan": unaryFunction(math.Tan),
	"tanh": unaryFunction(math.Tanh), "atan2": binaryFunction(math.Atan2), "fmod": binaryFunction(math.Mod), "pow": binaryFunction(math.Pow),
	"deg": unaryFunction(func(x float64) float64 { return x * 180 / math.Pi }),
	"rad": unaryFunction(func(x float64) float64 { return x * math.Pi / 180 }),
	"max": chooseNumber(func(a, b lua.LNumber) bool { return b > a }), "min": chooseNumber(func(a, b lua.LNumber) bool { return b < a }),
	"modf": mathModf, "frexp": mathFrexp, "ldexp": mathLdexp,
}

var mathConstants = map[string]lua.LValue{"pi": lua.LNumber(math.Pi), "huge": lua.LNumber(math.Inf(1))}

func unaryFunction(f func(float64) float64) lua.LGFunction {
	return func(L *lua.LState) int {
		L.Push(lua.LNumber(f(float64(L.CheckNumber(1)))))
		return 1
	}
}

func binaryFunction(f func(a, b float64) float64) lua.LGFunction {
	return func(L *lua.LState) int {
		L.Push(lua.LNumber(f(float64(L.CheckNumber(1)), float64(L.CheckNumber(2)))))
		return 1
	}
}

func chooseNumber(better func(a, b lua.LNumber) bool) lua.LGFunction {
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
