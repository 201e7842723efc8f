package kill

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"sluice.dev/sluice/test/world"
)

// process is one executor as a process of its own.
type process struct {
	command *exec.Cmd
	errors  *bytes.Buffer
	ended   chan error
}

// program starts executors.
type program struct {
	binary string
	world  *world.World
}

func build(t *testing.T, w *world.World) program {
	t.Helper()
	p := program{binary: filepath.Join(t.TempDir(), "executor"), world: w}
	if out, err := exec.Command("go", "build", "-o", p.binary, filepath.Join(world.Root(), "cmd/executor")).CombinedOutput(); err != nil {
		t.Fatalf("build the executor: %v\n%s", err, out)
	}
	return p
}

func (p program) start(t *testing.T) *process {
	t.Helper()
	x := &process{errors: &bytes.Buffer{}, ended: make(chan error, 1)}
	x.command = exec.Command(p.binary, "--kubeconfig", p.world.Kubeconfig, "--as-service-account", "--nats-url", p.world.NATS.URL(), "--nats-user", p.world.NATS.User(), "--log-level=warn")
	x.command.Env = append(os.Environ(), "NATS_PASSWORD="+p.world.NATS.Password())
	x.command.Stderr = x.errors
	if err := x.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.command.Process.Kill() }) // a test that fails leaves none behind
	go func() { x.ended <- x.command.Wait() }()
	return x
}

// noneLeft checks that no process of the program is alive.
func (p program) noneLeft(t *testing.T) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == p.binary {
			t.Errorf("%s is still alive", filepath.Dir(link))
		}
	}
}

// kill ends the process as nothing can refuse, and waits until it is gone.
func (x *process) kill(t *testing.T) {
	t.Helper()
	select {
	case err := <-x.ended:
		t.Errorf("an executor ended by itself: %v\n%s", err, x.errors)
		return
	default:
	}
	if err := x.command.Process.Kill(); err != nil {
		t.Error(err)
	}
	<-x.ended
}

// freeze stops the process for a while, as a machine out of memory or a suspended one does; its lease may run out meanwhile.
func (x *process) freeze(t *testing.T, last <-chan time.Time) {
	t.Helper()
	if err := x.command.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Error(err)
		return
	}
	<-last
	if err := x.command.Process.Signal(syscall.SIGCONT); err != nil {
		t.Error(err)
	}
}

// torment kills two executors in turns and starts them again, until done is closed. It returns how often it did what.
func torment(t *testing.T, p program, seed uint64, done <-chan struct{}) (kills, freezes int) {
	random := rand.New(rand.NewPCG(seed, seed))
	pair := []*process{p.start(t), p.start(t)}
	defer func() {
		for _, x := range pair {
			x.kill(t)
		}
	}()
	for turn := 0; ; turn++ {
		select {
		case <-done:
			return kills, freezes
		case <-time.After(time.Duration(300+random.IntN(400)) * time.Millisecond):
		}
		if turn%10 == 9 {
			pair[turn%2].freeze(t, time.After(time.Duration(500+random.IntN(2000))*time.Millisecond))
			freezes++
			continue
		}
		pair[turn%2].kill(t)
		pair[turn%2] = p.start(t)
		kills++
	}
}
