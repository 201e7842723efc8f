package script

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// matcher runs one Lua 5.1 pattern over one string by backtracking. It charges the
// run for each attempt, so a pattern that explodes ends like a loop.
type matcher struct {
	L        *lua.LState
	run      *run
	src, pat string
	captures int
	capture  [maxCaptures]struct{ start, size int }
	depth    int
	units    int
}

const (
	maxCaptures = 32
	maxNesting  = 200

	capOpen     = -1 // size of a capture that is not closed yet
	capPosition = -2 // size of a position capture
	noMatch     = -1
)

func newMatcher(L *lua.LState, src, pat string) *matcher {
	return &matcher{L: L, run: runOf(L), src: src, pat: pat}
}

// matchAt matches the whole pattern from p at src[s:] and returns the end of the
// match, or noMatch.
func (m *matcher) matchAt(s, p int) int {
	m.captures = 0
	end := m.match(s, p)
	for i := range m.captures {
		if end != noMatch && m.capture[i].size == capOpen {
			m.raiseError("unfinished capture")
		}
	}
	return end
}

func (m *matcher) countUnit() {
	m.units++
	if m.units%unitsPerStep == 0 {
		m.run.chargeSteps(m.L, 1)
	}
	if m.units%4096 == 0 {
		m.run.checkClock()
	}
}

func (m *matcher) raiseError(message string) { m.L.RaiseError("%s", message) }

func (m *matcher) match(s, p int) int {
	m.depth++
	if m.depth > maxNesting {
		m.raiseError("pattern too complex")
	}
	end := m.sequence(s, p)
	m.depth--
	return end
}

func (m *matcher) sequence(s, p int) int {
	for p < len(m.pat) {
		m.countUnit()
		switch m.pat[p] {
		case '(':
			if p+1 < len(m.pat) && m.pat[p+1] == ')' {
				return m.openCapture(s, p+2, capPosition)
			}
			return m.openCapture(s, p+1, capOpen)
		case ')':
			return m.closeCapture(s, p+1)
		case '$':
			if p+1 == len(m.pat) {
				if s == len(m.src) {
					return s
				}
				return noMatch
			}
		case '%':
			if p+1 < len(m.pat) {
				next, np, special := m.matchEscape(s, p)
				if special {
					if next == noMatch {
						return noMatch
					}
					s, p = next, np
					continue
				}
			}
		}
		end := m.classEnd(p)
		var suffix byte
		if end < len(m.pat) {
			suffix = m.pat[end]
		}
		switch suffix {
		case '*':
			return m.matchGreedy(s, p, end)
		case '+':
			if !m.matchSingle(s, p, end) {
				return noMatch
			}
			return m.matchGreedy(s+1, p, end)
		case '-':
			return m.matchLazy(s, p, end)
		case '?':
			if m.matchSingle(s, p, end) {
				if r := m.match(s+1, end+1); r != noMatch {
					return r
				}
			}
			p = end + 1
		default:
			if !m.matchSingle(s, p, end) {
				return noMatch
			}
			s, p = s+1, end
		}
	}
	return s
}

// matchEscape handles %b, %f and back-references; special is false for a plain class.
func (m *matcher) matchEscape(s, p int) (next, np int, special bool) {
	switch c := m.pat[p+1]; {
	case c == 'b':
		return m.matchBalanced(s, p+2), p + 4, true
	case c == 'f':
		p += 2
		if p >= len(m.pat) || m.pat[p] != '[' {
			m.raiseError("missing '[' after '%f' in pattern")
		}
		end := m.classEnd(p)
		var before, here byte
		if s > 0 {
			before = m.src[s-1]
		}
		if s < len(m.src) {
			here = m.src[s]
		}
		if m.inSet(before, p, end-1) || !m.inSet(here, p, end-1) {
			return noMatch, p, true
		}
		return s, end, true
	case c >= '0' && c <= '9':
		return m.backReference(s, c), p + 2, true
	}
	return 0, 0, false
}

func (m *matcher) matchGreedy(s, p, end int) int {
	n := 0
	for m.matchSingle(s+n, p, end) {
		m.countUnit()
		n++
	}
	for ; n >= 0; n-- {
		if r := m.match(s+n, end+1); r != noMatch {
			return r
		}
	}
	return noMatch
}

func (m *matcher) matchLazy(s, p, end int) int {
	for {
		if r := m.match(s, end+1); r != noMatch {
			return r
		}
		if !m.matchSingle(s, p, end) {
			return noMatch
		}
		s++
	}
}

func (m *matcher) openCapture(s, p, size int) int {
	if m.captures >= maxCaptures {
		m.raiseError("too many captures")
	}
	m.capture[m.captures].start, m.capture[m.captures].size = s, size
	m.captures++
	r := m.match(s, p)
	if r == noMatch {
		m.captures--
	}
	return r
}

func (m *matcher) closeCapture(s, p int) int {
	i := m.captures - 1
	for i >= 0 && m.capture[i].size != capOpen {
		i--
	}
	if i < 0 {
		m.raiseError("invalid pattern capture")
	}
	m.capture[i].size = s - m.capture[i].start
	r := m.match(s, p)
	if r == noMatch {
		m.capture[i].size = capOpen
	}
	return r
}

func (m *matcher) backReference(s int, digit byte) int {
	i := int(digit) - '1'
	if i < 0 || i >= m.captures || m.capture[i].size < 0 {
		m.raiseError("invalid capture index")
	}
	c := m.capture[i]
	m.run.chargeScan(m.L, c.size)
	if strings.HasPrefix(m.src[s:], m.src[c.start:c.start+c.size]) {
		return s + c.size
	}
	return noMatch
}

func (m *matcher) matchBalanced(s, p int) int {
	if p+1 >= len(m.pat) {
		m.raiseError("unbalanced pattern")
	}
	if s >= len(m.src) || m.src[s] != m.pat[p] {
		return noMatch
	}
	open, shut, level := m.pat[p], m.pat[p+1], 1
	for i := s + 1; i < len(m.src); i++ {
		m.countUnit()
		switch m.src[i] {
		case shut:
			if level--; level == 0 {
				return i + 1
			}
		case open:
			level++
		}
	}
	return noMatch
}

// classEnd returns the index behind the single-character class at p.
func (m *matcher) classEnd(p int) int {
	c := m.pat[p]
	p++
	switch c {
	case '%':
		if p == len(m.pat) {
			m.raiseError("malformed pattern (ends with '%')")
		}
		return p + 1
	case '[':
		if p < len(m.pat) && m.pat[p] == '^' {
			p++
		}
		for first := true; ; first = false {
			if p >= len(m.pat) {
				m.raiseError("malformed pattern (missing ']')")
			}
			m.countUnit()
			c := m.pat[p]
			p++
			if c == '%' {
				p++
			} else if c == ']' && !first {
				return p
			}
		}
	}
	return p
}

func (m *matcher) matchSingle(s, p, end int) bool {
	if s >= len(m.src) {
		return false
	}
	m.countUnit()
	c := m.src[s]
	switch m.pat[p] {
	case '.':
		return true
	case '%':
		return inClass(c, m.pat[p+1])
	case '[':
		return m.inSet(c, p, end-1)
	}
	return m.pat[p] == c
}

// inSet reports whether c is in the set whose '[' is at p and ']' at last.
func (m *matcher) inSet(c byte, p, last int) bool {
	want := true
	p++
	if m.pat[p] == '^' {
		want = false
		p++
	}
	for ; p < last; p++ {
		m.countUnit()
		switch {
		case m.pat[p] == '%':
			p++
			if inClass(c, m.pat[p]) {
				return want
			}
		case p+2 < last && m.pat[p+1] == '-':
			if m.pat[p] <= c && c <= m.pat[p+2] {
				return want
			}
			p += 2
		case m.pat[p] == c:
			return want
		}
	}
	return !want
}

func inClass(c, class byte) bool {
	var in bool
	switch class | 0x20 {
	case 'a':
		in = isAlpha(c)
	case 'c':
		in = c < 0x20 || c == 0x7f
	case 'd':
		in = isDigit(c)
	case 'l':
		in = 'a' <= c && c <= 'z'
	case 'p':
		in = c > 0x20 && c < 0x7f && !isAlpha(c) && !isDigit(c)
	case 's':
		in = c == ' ' || '\t' <= c && c <= '\r'
	case 'u':
		in = 'A' <= c && c <= 'Z'
	case 'w':
		in = isAlpha(c) || isDigit(c)
	case 'x':
		in = isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f'
	case 'z':
		in = c == 0
	default:
		return class == c
	}
	if !isAlpha(class) {
		return class == c
	}
	return in == (class >= 'a')
}

func isAlpha(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// captureValue is capture i of a match from s to e. In a pattern without captures,
// the whole match is the only one.
func (m *matcher) captureValue(i, s, e int) lua.LValue {
	if i >= m.captures {
		if i > 0 {
			m.raiseError("invalid capture index")
		}
		return m.substring(s, e)
	}
	c := m.capture[i]
	switch c.size {
	case capOpen:
		m.raiseError("unfinished capture")
	case capPosition:
		return lua.LNumber(c.start + 1)
	}
	return m.substring(c.start, c.start+c.size)
}

func (m *matcher) substring(s, e int) lua.LValue {
	m.run.chargeBytes(m.L, 16)
	return lua.LString(m.src[s:e])
}

// pushCaptures pushes all captures. Without captures it pushes the whole match, if
// whole is set.
func (m *matcher) pushCaptures(s, e int, whole bool) int {
	n := m.captures
	if n == 0 && whole {
		n = 1
	}
	for i := range n {
		m.L.Push(m.captureValue(i, s, e))
	}
	return n
}
