//go:build linux && !race

package script

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Limits for any script.
const (
	mostTime   = 250 * time.Millisecond
	mostMemory = 64 << 20
	mostBytes  = 40 << 10 // allocated by one call of the VirtualService script
)

// measured is the cost of one run in a process of its own.
type measured struct {
	CPU, Wall  time.Duration
	Peak       int // highest growth of the process
	Goroutines int // number of new goroutines
	Kind       Kind
	Next       string // the output of the next good call
}

// TestHostileScriptsKeepTheLimits runs each script in a process of its own. So a
// script that kills its process is one failure, and the kernel counts time and
// memory exactly. Time is processor time, including garbage collection: unlike the
// wall clock it depends little on the load of the machine. The rest of that
// dependence (caches, hyperthreads) only adds time. So the test measures a slow
// script again, up to five times and without other scripts at the same time.
func TestHostileScriptsKeepTheLimits(t *testing.T) {
	good, most := goodCall(t), mostTime
	if testing.CoverMode() != "" {
		most *= 2 // the binary also counts statements
	}
	var alone sync.RWMutex
	for _, h := range hostileScripts(t) {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			alone.RLock()
			m := measure(t, h.source)
			alone.RUnlock()
			for i := 0; i < 5 && m.CPU > most; i++ {
				alone.Lock()
				m = measure(t, h.source)
				alone.Unlock()
			}
			t.Logf("%v of processor time, %v, %.1f MB, ends with: %s", m.CPU, m.Wall, float64(m.Peak)/1e6, m.Kind)
			if m.CPU > most {
				t.Errorf("took %v of processor time, more than %v", m.CPU, most)
			}
			if m.Peak > mostMemory {
				t.Errorf("took %d bytes, more than %d", m.Peak, mostMemory)
			}
			if m.Goroutines > 0 {
				t.Errorf("left %d goroutines behind", m.Goroutines)
			}
			if m.Kind != h.want {
				t.Errorf("ended with %s, want %s", m.Kind, h.want)
			}
			if m.Next != good {
				t.Errorf("the next run gives %s, want %s", m.Next, good)
			}
		})
	}
}

const asChild = "SLUICE_TEST_HOSTILE"

func measure(t *testing.T, source string) measured {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOneHostileScript$")
	cmd.Env = append(os.Environ(), asChild+"=1")
	cmd.Stdin = strings.NewReader(source)
	out, err := cmd.CombinedOutput()
	_, result, found := bytes.Cut(out, []byte(asChild))
	result, _, _ = bytes.Cut(result, []byte("\n"))
	var m measured
	if err != nil || !found || json.Unmarshal(result, &m) != nil {
		t.Fatalf("the process did not survive: %v\n%.2000s", err, out)
	}
	return m
}

// TestOneHostileScript runs in the child process: it runs the script on its input.
func TestOneHostileScript(t *testing.T) {
	if os.Getenv(asChild) == "" {
		t.Skip("only in a child of TestHostileScriptsKeepTheLimits")
	}
	source, err := io.ReadAll(os.Stdin)
	if err != nil {
		t.Fatal(err)
	}
	goodCall(t) // warm up: make everything that is made only once
	runtime.GC()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Logf("the peak of before counts as well: %v", err)
	}
	var m measured
	goroutines, resident, cpu, began := runtime.NumGoroutine(), status(t, "VmRSS"), processTime(t), time.Now()
	p, err := Compile("dock.lua", string(source))
	if err == nil {
		_, err = p.Render(t.Context(), weightInput(2, 20), unhurried)
	}
	m.Wall, m.CPU, m.Peak = time.Since(began), processTime(t)-cpu, status(t, "VmHWM")-resident
	m.Goroutines = runtime.NumGoroutine() - goroutines
	m.Kind = checkedKind(t, err)
	m.Next = goodCall(t)
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\n%s%s\n", asChild, text)
}

func processTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// status reads a field of /proc/self/status, in bytes.
func status(t *testing.T, field string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n"+field+":")
	var kib int
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatalf("read %s: %v", field, err)
	}
	return kib << 10
}

func TestCallOfTheVirtualServiceScriptIsCheap(t *testing.T) {
	p := builtinProgram(t, "VirtualService")
	for name, in := range benchInputs() {
		t.Run(name, func(t *testing.T) {
			const calls = 200
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range calls {
				if _, err := p.Render(t.Context(), in, unhurried); err != nil {
					t.Fatal(err)
				}
			}
			runtime.ReadMemStats(&after)
			if each := (after.TotalAlloc - before.TotalAlloc) / calls; each > mostBytes {
				t.Errorf("a call allocates %d bytes, more than %d", each, mostBytes)
			}
		})
	}
}
