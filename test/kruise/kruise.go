// Package kruise runs OpenKruise's own controllers of CloneSet, Advanced StatefulSet and Advanced DaemonSet for a
// control plane of test/controlplane, as the process bin/sluice-kruise. It does not wrap these kinds: callers write
// objects with their own clients. Its one invariant: the controllers end with Stop or with the process that started
// them, even when that process is killed.
//
// Its tests show the behaviour on which releases rely: the reaction of each kind, and of its native relative, to the
// writes of a release.
//
// kwok plays the pods and cannot replace an image in a running pod. So let objects recreate their pods (ReCreate, which
// is the default of all three).
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
	// StartedIn is the time from the start of the process until the controllers defaulted and reconciled objects.
	StartedIn time.Duration
	// Version is the version of OpenKruise.
	Version string

	process  *exec.Cmd
	lifeline io.Closer
	stderr   *bytes.Buffer
	stop     func() error
}

// Start runs the controllers. It returns when they see the cluster and its API server defaults their kinds. The cluster
// must serve CRDs. ctx bounds the start only. The caller must Stop the controllers, before the cluster. Without them,
// the API server refuses to write objects of these kinds, because their webhooks do not answer.
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

// Stop ends the controllers. Later calls return the result of the first. The error is the reason for which they ended
// earlier, if they did.
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

// await reads the announcement of the running controllers.
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
