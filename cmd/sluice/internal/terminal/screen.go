// Package terminal shows text that changes: in place on a terminal, block after block elsewhere. It knows nothing of the text. Its one invariant: it writes
// control sequences only to a terminal.
package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Control sequences of terminals.
const (
	enter     = "\x1b[?1049h\x1b[?25l\x1b[?7l" // another screen, no cursor, long lines cut off
	leave     = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	home      = "\x1b[H"
	clearLine = "\x1b[K"
	clearRest = "\x1b[J"
)

// Screen shows text. Create it with New, and Close it.
type Screen struct {
	out     io.Writer
	height  func() int
	last    []string
	lastKey []string
}

// New returns a screen for out. On a terminal it switches to an alternate screen. height returns the height of the terminal; it is nil if out is no terminal.
func New(out io.Writer, height func() int) *Screen {
	if height != nil {
		fmt.Fprint(out, enter)
	}
	return &Screen{out: out, height: height}
}

// cutLines reserves room for a note about lines that do not fit.
func cutLines(lines []string, height int) []string {
	if height < 2 || len(lines) <= height {
		return lines
	}
	return append(slices.Clone(lines[:height-1]), fmt.Sprintf("(%d more lines; make the window taller, or leave out -w)", len(lines)-height+1))
}

// DrawLines shows lines. If out is no terminal, it writes them only if key, their relevant part, differs from the last key.
func (s *Screen) DrawLines(lines, key []string) error {
	if s.height != nil {
		s.last = lines
		lines = cutLines(lines, s.height())
		_, err := fmt.Fprint(s.out, home+strings.Join(lines, clearLine+"\r\n")+clearLine+clearRest)
		return err
	}
	if s.last != nil && slices.Equal(key, s.lastKey) {
		return nil
	}
	separator := ""
	if s.last != nil {
		separator = "\n---\n"
	}
	s.last, s.lastKey = lines, key
	_, err := fmt.Fprintln(s.out, separator+strings.Join(lines, "\n"))
	return err
}

// Close returns to the main screen of the terminal and leaves the last lines there.
func (s *Screen) Close() {
	if s.height != nil {
		fmt.Fprint(s.out, leave+strings.Join(s.last, "\n")+"\n")
	}
}
