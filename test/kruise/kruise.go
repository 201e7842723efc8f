// Package kruise runs OpenKruise's own controllers of CloneSet, Advanced StatefulSet and Advanced DaemonSet beside a control plane
// of test/controlplane, as the process bin/sluice-kruise. It is no wrapper of these kinds: callers write objects with clients of
// their own. Its one invariant: the controllers end with Stop or with the process that started them, even when that is killed.
//
// Its tests say what releases rely on: how each kind, and its native relative, answers to what a release writes.
//
// Pods are played by kwok, which cannot replace an image in a pod that runs: let objects recreate their pods (ReCreate, which is
// the default of all three).
package kruise

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"
)

const stopTimeout = 20 * time.Second

// Controllers are the running controllers of OpenKruise.
type Controllers struct {
	// StartedIn is how long it took, once the process ran, until objects were defaulted and moved.
	StartedIn time.Duration
	// Version is that of OpenKruise.
	Version string

	process  *exec.Cmd
	lifeline io.Closer
	stderr   *bytes.Buffer
	stop     func() error
}

// Start runs the controllers and returns when they see the cluster and its API server defaults their kinds. The cluster must serve
// CRDs. ctx bounds the start only; the caller must Stop them, before the cluster. Without them the API server refuses to write
// objects of these kinds, for their webhooks do not answer.
func Start(ctx context.Context, kubeconfig string) (*Controllers, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	c := &Controllers{stderr: &bytes.Buffer{}}
	c.stop = sync.OnceValue(c.end)
	stdout, err := c.launch(binary, kubeconfig)
	if err != nil {
		return nil, err
	}
	unwatch := context.AfterFunc(ctx, func() { _ = c.process.Process.Kill() })
	err = c.await(stdout)
	if !unwatch() && err != nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = c.Stop()
		return nil, fmt.Errorf("start the controllers of OpenKruise: %w\n%s", err, c.stderr)
	}
	return c, nil
}

// Stop ends the controllers; the second call and later ones return what the first did. The error is why they ended before, if
// they did.
func (c *Controllers) Stop() error { return c.stop() }

func (c *Controllers) launch(binary, kubeconfig string) (io.Reader, error) {
	c.process = exec.Command(binary, "--kubeconfig", kubeconfig, "--with-parent")
	c.process.Stderr = c.stderr
	lifeline, err := c.process.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("make the lifeline of the controllers: %w", err)
	}
	c.lifeline = lifeline
	stdout, err := c.process.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("make the output of the controllers: %w", err)
	}
	if err := c.process.Start(); err != nil {
		return nil, fmt.Errorf("run %s: %w", binary, err)
	}
	return stdout, nil
}

// await reads the announcement of controllers that run.
func (c *Controllers) await(stdout io.Reader) error {
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return errors.New("they ended before they ran")
	}
	if err != nil {
		return fmt.Errorf("read that they run: %w", err)
	}
	var announced struct{ StartedIn, Version string }
	if err := json.Unmarshal(line, &announced); err != nil {
		return fmt.Errorf("read that they run from %q: %w", line, err)
	}
	c.Version = announced.Version
	if c.StartedIn, err = time.ParseDuration(announced.StartedIn); err != nil {
		return fmt.Errorf("read how long the start took: %w", err)
	}
	return nil
}

func (c *Controllers) end() error {
	_ = c.lifeline.Close()
	timer := time.AfterFunc(stopTimeout, func() { _ = c.process.Process.Kill() })
	defer timer.Stop()
	if err := c.process.Wait(); err != nil {
		return fmt.Errorf("run the controllers of OpenKruise: %w\n%s", err, c.stderr)
	}
	return nil
}
