package script

import (
	"fmt"
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// stringFormat supports the conversions of Lua 5.1 with its bounds: at most two
// digits of width and of precision. So the result is never far larger than the
// arguments.
func stringFormat(L *lua.LState) int {
	const bytesPerStep = 16
	f := L.CheckString(1)
	runOf(L).chargeSteps(L, len(f)/bytesPerStep)
	var b strings.Builder
	arg := 1
	for {
		i := strings.IndexByte(f, '%')
		if i < 0 {
			b.WriteString(f)
			return pushString(L, b.String())
		}
		b.WriteString(f[:i])
		f = f[i+1:]
		if strings.HasPrefix(f, "%") {
			b.WriteByte('%')
			f = f[1:]
			continue
		}
		n := specLength(L, f)
		arg++
		piece := formatOne(L, f[:n], f[n], arg)
		runOf(L).chargeString(L, len(piece))
		if b.Len()+len(piece) > maxString {
			runOf(L).chargeString(L, maxString+1)
		}
		b.WriteString(piece)
		f = f[n+1:]
	}
}

// specLength is the length of flags, width and precision.
func specLength(L *lua.LState, f string) int {
	skip := func(i int, set string, longest int) int {
		start := i
		for i < len(f) && i-start < longest && strings.IndexByte(set, f[i]) >= 0 {
			i++
		}
		return i
	}
	const digits = "0123456789"
	i := skip(0, "-+ #0", 5)
	i = skip(i, digits, 2)
	if i < len(f) && f[i] == '.' {
		i = skip(i+1, digits, 2)
	}
	if i >= len(f) {
		L.RaiseError("invalid option '%%' to 'format'")
	}
	if isDigit(f[i]) {
		L.RaiseError("invalid format (width or precision too long)")
	}
	return i
}

func formatOne(L *lua.LState, spec string, verb byte, arg int) string {
	switch verb {
	case 'd', 'i':
		return fmt.Sprintf("%"+spec+"d", toInteger(L, arg))
	case 'u', 'o', 'x', 'X':
		if verb == 'u' {
			verb, spec = 'd', strings.NewReplacer("+", "", " ", "", "#", "").Replace(spec)
		}
		return fmt.Sprintf("%"+spec+string(verb), uint64(toInteger(L, arg)))
	case 'c':
		width, _, _ := strings.Cut(withoutZeroFlag(spec), ".")
		return fmt.Sprintf("%"+width+"s", []byte{byte(toInteger(L, arg))})
	case 'e', 'E', 'f', 'g', 'G':
		return formatFloat(spec, verb, float64(L.CheckNumber(arg)))
	case 's':
		s := displayString(L.CheckAny(arg))
		runOf(L).chargeScan(L, len(s))
		return fmt.Sprintf("%"+withoutZeroFlag(spec)+"s", s)
	case 'q':
		return quoteString(L.CheckString(arg))
	}
	L.RaiseError("invalid option '%%%s' to 'format'", string(rune(verb)))
	return ""
}

// withoutZeroFlag removes the zero flag, because text is padded with blanks.
func withoutZeroFlag(spec string) string {
	rest := strings.TrimLeft(spec, "-+ #0")
	return strings.ReplaceAll(spec[:len(spec)-len(rest)], "0", "") + rest
}

func formatFloat(spec string, verb byte, f float64) string {
	if verb == 'g' || verb == 'G' {
		if !strings.Contains(spec, ".") {
			spec += ".6"
		}
	}
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return strings.ToLower(strings.TrimPrefix(fmt.Sprint(f), "+"))
	}
	return fmt.Sprintf("%"+spec+string(verb), f)
}

func toInteger(L *lua.LState, arg int) int64 {
	f := math.Trunc(float64(L.CheckNumber(arg)))
	if math.IsNaN(f) || f >= 1<<63 || f < -(1<<63) {
		return math.MinInt64
	}
	return int64(f)
}

var quoting = strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", "\\\n", "\r", `\r`, "\x00", `\000`)

func quoteString(s string) string { return `"` + quoting.Replace(s) + `"` }
