package terminal_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sluice.dev/sluice/cmd/sluice/internal/terminal"
)

func TestElsewhereThanOnATerminalBlocksAreWrittenWhenTheyChange(t *testing.T) {
	var out strings.Builder
	s := terminal.New(&out, nil)
	for _, block := range [][2]string{{"a 1s", "a"}, {"a 2s", "a"}, {"b 3s", "b"}} {
		if err := s.DrawLines([]string{block[0]}, []string{block[1]}); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	if diff := cmp.Diff("a 1s\n\n---\nb 3s\n", out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestOnATerminalTheLastBlockStays(t *testing.T) {
	var out strings.Builder
	s := terminal.New(&out, func() int { return 2 })
	for _, lines := range [][]string{{"a"}, {"b", "c", "d"}} {
		if err := s.DrawLines(lines, nil); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	text := out.String()
	if want := "(2 more lines; make the window taller, or leave out -w)"; !strings.Contains(text, "b\x1b[K\r\n"+want) {
		t.Errorf("three lines in a window of two do not end in %q:\n%q", want, text)
	}
	if !strings.HasPrefix(text, "\x1b[?1049h") || !strings.HasSuffix(text, "\x1b[?1049lb\nc\nd\n") {
		t.Errorf("the terminal's own screen does not come back with the last block:\n%q", text)
	}
}
