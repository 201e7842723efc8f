package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"sluice.dev/sluice/pkg/queue/embedded"
)

// part is one process that the bench started.
type part struct {
	name    string
	command *exec.Cmd
	// address serves health, metrics and profiles.
	address string
	drained chan struct{}
}

// stopWait is the longest time that a part may take to finish its work. It is long because the machine may be busy; nothing waits for its end.
const stopWait = 2 * time.Minute

// startPart runs a program and returns when a line of its standard error satisfies ready. The lines go to a log file.
func startPart(ctx context.Context, logs, name string, command *exec.Cmd, ready func(p *part, line []byte) bool) (*part, error) {
	file, err := os.Create(filepath.Join(logs, name+".log"))
	if err != nil {
		return nil, fmt.Errorf("make the log of %s: %w", name, err)
	}
	p := &part{name: name, command: command, drained: make(chan struct{})}
	stderr, err := command.StderrPipe()
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	command.SysProcAttr = childAttributes()
	if err := command.Start(); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	began := make(chan struct{})
	go p.drain(stderr, file, ready, began)
	select {
	case <-began:
		return p, nil
	case <-p.drained:
		err = fmt.Errorf("start %s: it ended before it was ready; see %s", name, file.Name())
	case <-ctx.Done():
		err = fmt.Errorf("start %s: %w", name, context.Cause(ctx))
	}
	return nil, errors.Join(err, p.stop())
}

func (p *part) drain(from io.Reader, file *os.File, ready func(*part, []byte) bool, began chan struct{}) {
	defer close(p.drained)
	defer file.Close()
	waiting := true
	for lines := bufio.NewReader(from); ; {
		line, err := lines.ReadBytes('\n')
		_, _ = file.Write(line)
		if waiting && ready(p, line) {
			waiting = false
			close(began)
		}
		if err != nil {
			return
		}
	}
}

// serving finds the address of health and metrics in a part's log.
func serving(p *part, line []byte) bool {
	var entry struct{ Msg, Address string }
	if json.Unmarshal(line, &entry) != nil || entry.Msg != "serving health and metrics" {
		return false
	}
	p.address = entry.Address
	return true
}

// stop sends the process a signal to end, and waits.
func (p *part) stop() error {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(stopWait, func() { _ = p.command.Process.Kill() })
	defer timer.Stop()
	<-p.drained
	if err := p.command.Wait(); err != nil {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	return nil
}

// awaitReady returns when the part reports that it is ready.
func (p *part) awaitReady(ctx context.Context) error {
	return until(ctx, p.name+" is ready", func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/readyz", nil)
		if err != nil {
			return false, err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK, nil
	})
}

// pollEvery is the interval between checks of a fact without an event.
const pollEvery = 100 * time.Millisecond

// until calls done repeatedly until it is true or ctx ends.
func until(ctx context.Context, what string, done func(context.Context) (bool, error)) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		ok, err := done(ctx)
		if ok && err == nil {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("wait until %s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// natsCommand, hidden, runs this program as a NATS server, so that its CPU time is measured separately. Its arguments are a directory and the members of a fleet.
// The password of a member is its name.
const natsCommand = "nats-server"

// natsAddress is the line in which the server prints its address.
type natsAddress struct{ URL, User, Password string }

// runNATS serves until a signal ends it, and returns the exit code.
func runNATS(dir string, members []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	passwords := map[string]string{}
	for _, member := range members {
		passwords[member] = member
	}
	server, err := embedded.Start(embedded.Options{Dir: dir, Members: passwords})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer server.Close()
	if err := json.NewEncoder(os.Stderr).Encode(natsAddress{server.URL(), server.User(), server.Password()}); err != nil {
		return 1
	}
	<-ctx.Done()
	return 0
}
