package script

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// The fuzz targets try arbitrary patterns; this test tries meaningful ones.
func TestPatternsAgree(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		replacements := []string{"<%0>", "", "%%", "x%1y", "%2"}
		probe(t, patternProbe, map[string]any{
			"s": randomText(random), "p": randomPattern(random),
			"r": replacements[random.IntN(len(replacements))], "i": int64(random.IntN(14) - 5),
		})
	}
}

func randomText(r *rand.Rand) string {
	s := make([]byte, r.IntN(10))
	for i := range s {
		s[i] = "aab1 .x_()"[r.IntN(10)]
	}
	return string(s)
}

func randomPattern(r *rand.Rand) string {
	atoms := []string{"a", "b", ".", "%a", "%d", "[ab]", "[^a]", "%w", "%S", "x", "%.", "[a-c]", "[%w_]", "%W"}
	repeats := []string{"", "", "", "*", "+", "-", "?"}
	var b strings.Builder
	if r.IntN(8) == 0 {
		b.WriteByte('^')
	}
	open := false
	for range 1 + r.IntN(5) {
		if !open && r.IntN(4) == 0 {
			b.WriteByte('(')
			open = true
		}
		if r.IntN(12) == 0 {
			b.WriteString("%b()")
			continue
		}
		b.WriteString(atoms[r.IntN(len(atoms))] + repeats[r.IntN(len(repeats))])
		if open && r.IntN(2) == 0 {
			b.WriteByte(')')
			open = false
		}
	}
	if open {
		b.WriteByte(')')
	}
	if r.IntN(8) == 0 {
		b.WriteByte('$')
	}
	return b.String()
}
