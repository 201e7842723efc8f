package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"sluice.dev/sluice/cmd/sluice/internal/luatest"
	"strings"
	"testing"
)

// The author of a script sees the result of each edit at once.
func TestCasesRunAgainWhenAFileChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	written, err := luatest.NewScript(dir, "example.com", "WidgetRoute")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan int)
	go func() {
		defer in.Close()
		ended <- executeCommand(ctx, []string{"sluice", "lua", "test", filepath.Join(dir, "example.com"), "--watch"}, in, io.Discard)
	}()
	lines := bufio.NewScanner(out)
	until := func(text string) {
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Errorf("no line says %q", text)
	}
	until("3 steps passed.")
	if err := os.WriteFile(written[0], []byte("return {}"), 0o644); err != nil {
		t.Fatal(err)
	}
	until("3 failed, 0 steps passed.")
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("ended with %d, want 0", code)
	}
}
