// Package terminal shows text that changes: in place on a terminal, block after block elsewhere. It knows nothing of the text.
// Its one invariant: what is no terminal gets no control sequence.
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

// Screen is where text is shown. Make it with New, and Close it.
type Screen struct {
	out     io.Writer
	height  func() int
	last    []string
	lastKey []string
}

// New starts to show text; on a terminal on a screen of its own. height is that of the terminal, nil for what is none.
func New(out io.Writer, height func() int) *Screen {
	if height != nil {
		fmt.Fprint(out, enter)
	}
	return &Screen{out: out, height: height}
}

// cutLines leaves room for a note about what does not fit.
func cutLines(lines []string, height int) []string {
	if height < 2 || len(lines) <= height {
		return lines
	}
	return append(slices.Clone(lines[:height-1]), fmt.Sprintf("(%d more lines; make the window taller, or leave out -w)", len(lines)-height+1))
}

// DrawLines shows lines. Elsewhere than on a terminal it writes them only if key, what matters of them, differs from the last one's.
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

// Close goes back to the terminal's own screen and leaves there what was shown last.
func (s *Screen) Close() {
	if s.height != nil {
		fmt.Fprint(s.out, leave+strings.Join(s.last, "\n")+"\n")
	}
}
