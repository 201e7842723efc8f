package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Kubectl runs kubectl as the administrator and returns its standard output. The error holds the command and its
// standard error. Add --as to act as another user.
//
// One process runs all commands of a cluster. A command that is still running when ctx ends goes on until it ends by
// itself.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.KubectlStdin(ctx, "", args...)
}

// KubectlStdin is Kubectl with standard input, as for `apply -f -`. Its changes of RBAC are in force when it returns.
func (c *Cluster) KubectlStdin(ctx context.Context, stdin string, args ...string) (string, error) {
	out, err := c.commands.run(ctx, c, stdin, args)
	lost := false
	for try := 1; err != nil && ctx.Err() == nil; try++ {
		// A user would repeat a write that lost a race: `replace` reads a version, and a controller may write after
		// that.
		conflict := strings.Contains(err.Error(), "the object has been modified") && try <= 5
		// `wait` gives up on a new object whose conditions are still null, for example a CustomResourceDefinition.
		unconditioned := strings.Contains(err.Error(), ".status.conditions accessor error: <nil>")
		unanswered := Unanswered(err)
		if !conflict && !unconditioned && !unanswered {
			break
		}
		lost = lost || unanswered
		out, err = c.commands.run(ctx, c, stdin, args)
	}
	if lost && err != nil && carriedOut(args, err) {
		err = nil
	}
	if err == nil && writesRBAC(args, stdin) {
		err = c.rbac.inForce(ctx, c)
	}
	return out, err
}

// carriedOut reports whether the error of a repeated command shows that the API server carried out the first one. Then
// the object to create exists, or the object to delete is gone.
func carriedOut(args []string, err error) bool {
	return slices.Contains(args, "create") && strings.Contains(err.Error(), "(AlreadyExists)") || slices.Contains(args, "delete") && strings.Contains(err.Error(), "(NotFound)")
}

// KubectlEnv is Kubectl in its own process, with additional environment variables.
func (c *Cluster) KubectlEnv(ctx context.Context, env []string, args ...string) (string, error) {
	command := c.kubectl(ctx, append([]string{"--kubeconfig", c.Kubeconfig}, args...)...)
	command.Env = append(command.Env, env...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

func (c *Cluster) kubectl(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, filepath.Join(filepath.Dir(c.binary), "kubectl"), args...)
	// Discovery is cached by address, and a later cluster may get the port of an earlier one.
	command.Env = append(os.Environ(), "KUBECACHEDIR="+filepath.Join(filepath.Dir(c.Kubeconfig), "kubectl-cache"), "KUBERC=off")
	return command
}

// commands is `kubectl serve`, which runs the commands of one cluster from the first one to the end of the cluster. The
// zero value is ready.
type commands struct {
	mu      sync.Mutex
	process *exec.Cmd
	stderr  bytes.Buffer
	stdin   io.WriteCloser
	calls   *json.Encoder
	// waiting has the channel for the answer to each call. It is nil when the process has ended.
	waiting map[int]chan<- commandAnswer
	last    int
	ended   chan struct{}
}

// commandCall and commandAnswer are the lines that `kubectl serve` reads and writes.
type commandCall struct {
	ID    int      `json:"id"`
	Args  []string `json:"args"`
	Stdin string   `json:"stdin"`
}

type commandAnswer struct {
	ID     int    `json:"id"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	Code   int    `json:"code"`
}

func (s *commands) run(ctx context.Context, c *Cluster, stdin string, args []string) (string, error) {
	if slices.Contains(args, "can-i") { // kubectl ends its process when the answer is no
		return c.KubectlEnv(ctx, nil, args...)
	}
	answered, err := s.send(c, stdin, append([]string{"--kubeconfig", c.Kubeconfig}, args...))
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	select {
	case a, ok := <-answered:
		switch {
		case !ok:
			return "", fmt.Errorf("kubectl %s: the process that runs it ended: %s", strings.Join(args, " "), s.stderr.String())
		case a.Code != 0:
			return a.Stdout, fmt.Errorf("kubectl %s: exit status %d: %s", strings.Join(args, " "), a.Code, strings.TrimSpace(a.Stderr))
		}
		return a.Stdout, nil
	case <-ctx.Done():
		return "", fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), ctx.Err())
	}
}

// send sends a call. The channel gets its answer, and is closed without one when the process ends.
func (s *commands) send(c *Cluster, stdin string, args []string) (<-chan commandAnswer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		if err := s.start(c); err != nil {
			return nil, err
		}
	}
	if s.waiting == nil {
		return nil, fmt.Errorf("the process that runs the commands has ended: %s", s.stderr.String())
	}
	s.last++
	answered := make(chan commandAnswer, 1)
	s.waiting[s.last] = answered
	if err := s.calls.Encode(commandCall{ID: s.last, Args: args, Stdin: stdin}); err != nil {
		delete(s.waiting, s.last)
		return nil, err
	}
	return answered, nil
}

func (s *commands) start(c *Cluster) error {
	s.process = c.kubectl(context.Background(), "serve")
	s.process.Stderr = &s.stderr
	stdout, err := s.process.StdoutPipe()
	if err != nil {
		return err
	}
	if s.stdin, err = s.process.StdinPipe(); err != nil {
		return err
	}
	if err := s.process.Start(); err != nil {
		return err
	}
	s.calls, s.waiting, s.ended = json.NewEncoder(s.stdin), map[int]chan<- commandAnswer{}, make(chan struct{})
	go s.receive(stdout)
	return nil
}

// receive delivers answers until the output ends.
func (s *commands) receive(stdout io.Reader) {
	defer close(s.ended)
	for answers := json.NewDecoder(stdout); ; {
		var a commandAnswer
		err := answers.Decode(&a)
		s.mu.Lock()
		if err == nil {
			s.waiting[a.ID] <- a
			delete(s.waiting, a.ID)
			s.mu.Unlock()
			continue
		}
		waiting := s.waiting
		s.waiting = nil
		s.mu.Unlock()
		_ = s.process.Wait() // the callers learn that the process has ended
		for _, answered := range waiting {
			close(answered)
		}
		return
	}
}

// stop ends the process, if it runs, and its commands.
func (s *commands) stop() {
	s.mu.Lock()
	begun := s.ended != nil
	s.mu.Unlock()
	if begun {
		_ = s.stdin.Close()
		<-s.ended
	}
}
