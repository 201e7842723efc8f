// Package prometheus starts a real Prometheus for tests and for the demo, by running bin/sluice-prometheus. It is no
// client: callers query Server.Address by the HTTP API. Its one invariant: a Prometheus ends with Stop or with the
// process that started it, even when that process is killed.
package prometheus

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

const (
	stopTimeout     = 20 * time.Second
	defaultInterval = 200 * time.Millisecond
)

// Options choose the Prometheus that Start creates. The zero value scrapes five times per second.
type Options struct {
	// Dir holds the data and the targets, which a later Start finds again. If empty, Start uses a temporary directory
	// that Stop removes.
	Dir string
	// Listen is the host and port of the HTTP API, for a Prometheus that replaces an earlier one. If empty, Start uses
	// a free port of this machine.
	Listen string
	// Interval is the scrape interval, in whole milliseconds; 0 means 200 ms.
	Interval time.Duration
}

// Server is a running Prometheus.
type Server struct {
	// Address is the base of the HTTP API, such as http://127.0.0.1:41234.
	Address string
	// StartedIn is the time from the start of the process until it answered queries.
	StartedIn time.Duration

	targets string
	// temporary is the directory to remove at the end, if any.
	temporary string
	process   *exec.Cmd
	lifeline  io.Closer
	stderr    *bytes.Buffer
	stop      func() error
}

// Start runs a Prometheus without targets and returns when it answers queries. It uses free ports. ctx bounds the start
// only; the caller must Stop the Prometheus.
func Start(ctx context.Context, opts Options) (*Server, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	s := &Server{stderr: &bytes.Buffer{}}
	s.stop = sync.OnceValue(s.end)
	if opts.Dir == "" {
		if opts.Dir, err = os.MkdirTemp("", "sluice-prometheus-"); err != nil {
			return nil, fmt.Errorf("make a directory for Prometheus: %w", err)
		}
		s.temporary = opts.Dir
	}
	if opts.Interval == 0 {
		opts.Interval = defaultInterval
	}
	stdout, err := s.launch(binary, opts)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.temporary))
	}
	unwatch := context.AfterFunc(ctx, func() { _ = s.process.Process.Kill() })
	err = s.await(stdout)
	if !unwatch() && err != nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = s.Stop()
		return nil, fmt.Errorf("start Prometheus: %w\n%s", err, s.stderr)
	}
	return s, nil
}

// ForTest starts a Prometheus that ends with the test. With -short it skips the test.
func ForTest(t testing.TB, opts Options) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a Prometheus, which -short leaves out")
	}
	s, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Stop ends Prometheus. Later calls return the result of the first. The error is the reason for which it ended earlier,
// if it did.
func (s *Server) Stop() error { return s.stop() }

func (s *Server) launch(binary string, opts Options) (io.Reader, error) {
	args := []string{"--dir", opts.Dir, "--interval", opts.Interval.String(), "--with-parent"}
	if opts.Listen != "" {
		args = append(args, "--listen", opts.Listen)
	}
	s.process = exec.Command(binary, args...)
	s.process.Stderr = s.stderr
	lifeline, err := s.process.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("make the lifeline of Prometheus: %w", err)
	}
	s.lifeline = lifeline
	stdout, err := s.process.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("make the output of Prometheus: %w", err)
	}
	if err := s.process.Start(); err != nil {
		return nil, fmt.Errorf("run %s: %w", binary, err)
	}
	return stdout, nil
}

// await reads the announcement of a Prometheus that answers queries.
func (s *Server) await(stdout io.Reader) error {
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return errors.New("it ended before it answered queries")
	}
	if err != nil {
		return fmt.Errorf("read where it is: %w", err)
	}
	var announced struct{ Address, Targets, StartedIn string }
	if err := json.Unmarshal(line, &announced); err != nil {
		return fmt.Errorf("read where it is from %q: %w", line, err)
	}
	s.Address, s.targets = announced.Address, announced.Targets
	if s.StartedIn, err = time.ParseDuration(announced.StartedIn); err != nil {
		return fmt.Errorf("read how long the start took: %w", err)
	}
	return nil
}

func (s *Server) end() error {
	_ = s.lifeline.Close()
	timer := time.AfterFunc(stopTimeout, func() { _ = s.process.Process.Kill() })
	defer timer.Stop()
	err := s.process.Wait()
	if s.temporary != "" {
		_ = os.RemoveAll(s.temporary)
	}
	if err != nil {
		return fmt.Errorf("run Prometheus: %w\n%s", err, s.stderr)
	}
	return nil
}
