package world

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Program is the executor as a program, for tests that kill it.
type Program struct {
	binary string
	world  *World
	flags  []string
}

// Program builds the executor in a directory of the test.
func (w *World) Program(dir string) (Program, error) {
	binary, err := Build(dir, "executor")
	return Program{binary: binary, world: w}, err
}

// ProgramAt returns an executor that is built already, also one of another version.
func (w *World) ProgramAt(binary string, flags ...string) Program {
	return Program{binary: binary, world: w, flags: flags}
}

// Build compiles a command of this module, such as sluice, into a directory.
func Build(dir, command string) (binary string, err error) {
	binary = filepath.Join(dir, command)
	if out, err := exec.Command("go", "build", "-o", binary, filepath.Join(Root(), "cmd", command)).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", command, err, out)
	}
	return binary, nil
}

// Process is one executor in its own process.
type Process struct {
	command *exec.Cmd
	output  *output
	ended   chan struct{} // closed when the process has ended
}

// output is the output of a process. It shows when the process acts for the first time.
type output struct {
	said bytes.Buffer
	once sync.Once
	acts chan struct{} // closed when it acts
}

// act marks a line in which an executor announces an action.
const act = "msg=act "

// Write takes data from a pipe, nearly always whole lines. It misses an act that is split in two, and sees the next
// one.
func (o *output) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(act)) {
		o.once.Do(func() { close(o.acts) })
	}
	return o.said.Write(line)
}

// Start starts an executor. It ends when it is killed.
func (p Program) Start() (*Process, error) {
	x := &Process{output: &output{acts: make(chan struct{})}, ended: make(chan struct{})}
	flags := append([]string{"--kubeconfig", p.world.Kubeconfig, "--cluster", p.world.Name, "--as-service-account",
		"--nats-url", p.world.NATS.URL(), "--nats-user", p.world.NATS.User(), "--log-level=info"}, p.flags...)
	x.command = exec.Command(p.binary, flags...)
	x.command.Env = append(os.Environ(), "NATS_PASSWORD="+p.world.NATS.Password())
	x.command.Stderr = x.output
	if err := x.command.Start(); err != nil {
		return nil, fmt.Errorf("start an executor: %w", err)
	}
	go func() {
		defer close(x.ended)
		_ = x.command.Wait() // ProcessState has the result
	}()
	return x, nil
}

// Kill sends SIGKILL to the process and waits until it is gone. It returns an error if the process had already ended.
func (x *Process) Kill() error {
	select {
	case <-x.ended:
		return fmt.Errorf("an executor ended by itself: %s\n%s", x.command.ProcessState, x.output.said.String())
	default:
	}
	err := x.command.Process.Kill()
	<-x.ended
	return err
}

// Freeze stops the process for a while, as a suspended machine or one without memory does. Its lease may expire
// meanwhile.
func (x *Process) Freeze(last <-chan time.Time) error {
	if err := x.Stop(); err != nil {
		return err
	}
	<-last
	return x.Continue()
}

// Stop stops the process until Continue.
func (x *Process) Stop() error { return x.command.Process.Signal(syscall.SIGSTOP) }

// Continue lets a stopped process go on.
func (x *Process) Continue() error { return x.command.Process.Signal(syscall.SIGCONT) }

// Left returns the running processes of the program.
func (p Program) Left() ([]string, error) {
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return nil, err
	}
	var alive []string
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == p.binary {
			alive = append(alive, filepath.Dir(link))
		}
	}
	return alive, nil
}

// Torment counts the kills and freezes of executors.
type Torment struct{ Kills, Freezes int }

// idle is the number of pauses after which an executor is killed although it has not acted yet.
const idle = 10

// Torment kills two executors alternately and starts them again, until the context ends. Every tenth time it freezes
// one instead.
//
// Each pause lasts between one and two times the given duration. It begins when the next executor has acted. So
// executors live longer on a slow machine, and the work goes on. No process is left when Torment returns.
func (p Program) Torment(ctx context.Context, seed uint64, pause time.Duration) (done Torment, err error) {
	random := rand.New(rand.NewPCG(seed, seed))
	var pair [2]*Process
	defer func() {
		for _, x := range pair {
			if x != nil {
				err = errors.Join(err, x.Kill())
			}
		}
	}()
	for i := range pair {
		if pair[i], err = p.Start(); err != nil {
			return done, err
		}
	}
	for turn := 0; ; turn++ {
		x := &pair[turn%2]
		select {
		case <-(*x).output.acts:
		case <-ctx.Done():
		case <-time.After(idle * pause):
		}
		select {
		case <-ctx.Done():
			return done, nil
		case <-time.After(pause + time.Duration(random.Int64N(int64(pause)))):
		}
		if turn%10 == 9 {
			if err = (*x).Freeze(time.After(500*time.Millisecond + time.Duration(random.Int64N(int64(2*time.Second))))); err != nil {
				return done, err
			}
			done.Freezes++
			continue
		}
		killed := *x
		*x = nil
		if err = killed.Kill(); err != nil {
			return done, err
		}
		if *x, err = p.Start(); err != nil {
			return done, err
		}
		done.Kills++
	}
}
