//go:build linux

package live

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice.dev/sluice/test/world"
)

// binary returns the path of a program in bin.
func binary(name string) string { return filepath.Join(world.Root(), "bin", name) }

// output is the output of a process.
type output struct {
	mu   sync.Mutex
	said bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.said.Write(p)
}

// last returns the last n lines.
func (o *output) last(n int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(o.said.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// program returns the command of a program in bin, with arguments.
func program(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(binary(name), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	return cmd
}

// begin runs a program until the test has ended. If the test fails, it shows the end of the output.
func begin(t testing.TB, cmd *exec.Cmd, env ...string) {
	t.Helper()
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	cmd.WaitDelay = time.Second // for child processes that it left behind, which end with this process
	said := &output{}
	cmd.Stdout, cmd.Stderr = said, said
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // the process ends with the thread that started it
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // it is killed
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("%s said last:\n%s", cmd, said.last(40))
		}
	})
}
