// Package controlplane starts real Kubernetes control planes for tests and for the demo, by running bin/sluice-cluster.
// It has no fakes and does not wrap the API: callers create their own clients from Cluster.Config. Its one invariant: a
// cluster ends with Stop or with the process that started it, even when that process is killed.
package controlplane

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
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Annotations and labels with which a test controls the readiness of a pod; see dev/cluster/kwok.yaml.
const (
	// NeverReady is a label or annotation. While it is "true", the pod runs and is not ready. Adding it makes a ready
	// pod unready, removing it makes the pod ready.
	NeverReady = "sluice.dev/never-ready"
	// ReadyAfter is an annotation with a Go duration. The pod runs at once and gets ready after that time.
	ReadyAfter = "sluice.dev/ready-after"
)

// stopTimeout bounds Stop. The components are killed and not asked to end, so Stop takes milliseconds.
const stopTimeout = 20 * time.Second

// Options choose the cluster that Start creates. The zero value is a cluster of two nodes.
type Options struct {
	// Dir holds keys, logs and data. If empty, Start uses a temporary directory that Stop removes.
	Dir string
	// Nodes is the number of nodes, kwok-node-0 and on; 0 means 2.
	Nodes int
	// PodsPerNode is the capacity of each node; 0 means 500.
	PodsPerNode int
	// Audit makes the API server write AuditLog.
	Audit bool
	// AuditPolicy is the absolute path of an audit policy. It replaces the built-in one, which logs writes of users
	// only.
	AuditPolicy string
	// TypeChecks makes the control plane check the types of expressions in each ValidatingAdmissionPolicy, and write
	// the errors into its status.
	TypeChecks bool
	// CRDs are files of CustomResourceDefinitions, or directories of such *.yaml files. The API server serves them when
	// Start returns.
	CRDs []string
	// ControllerQPS is the limit of requests per second of the controller manager; 0 means 1000.
	ControllerQPS int
	// Detach lets the cluster outlive this process. It ends when the process Pid gets SIGTERM. Dir must be set.
	Detach bool
}

// Cluster is a running control plane.
type Cluster struct {
	// Kubeconfig is the path of a kubeconfig of a cluster administrator named "admin".
	Kubeconfig string
	// Config is the same identity for Go clients, without a client-side rate limit. Copy it to change it.
	Config *rest.Config
	// AuditLog is the path that Audit reads; empty without Options.Audit.
	AuditLog string
	// StartedIn is the time until all of the cluster was usable.
	StartedIn time.Duration

	binary string
	// temporary is the directory to remove at the end, if any.
	temporary string
	process   *exec.Cmd
	lifeline  io.Closer
	stderr    *bytes.Buffer
	stop      func() error
	commands  commands
	kinds     kinds
	rbac      rbac
}

// Start runs a cluster. It returns when the nodes are ready, the namespaces have service accounts, and the API server
// serves the given CRDs. The ports are free ones, so clusters do not clash. ctx bounds the start only; the caller must
// Stop the cluster.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	c := &Cluster{binary: binary, stderr: &bytes.Buffer{}}
	c.stop = sync.OnceValue(c.end)
	if opts.Dir == "" {
		if opts.Dir, err = os.MkdirTemp("", "sluice-cluster-"); err != nil {
			return nil, fmt.Errorf("make a directory for the cluster: %w", err)
		}
		c.temporary = opts.Dir
	}
	stdout, err := c.launch(opts)
	if err != nil {
		_ = os.RemoveAll(c.temporary)
		return nil, err
	}
	unwatch := context.AfterFunc(ctx, func() { _ = c.process.Process.Kill() })
	err = c.await(stdout)
	if !unwatch() && err != nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = c.Stop()
		return nil, fmt.Errorf("start a cluster: %w\n%s", err, c.stderr)
	}
	return c, nil
}

// Stop ends the cluster and all its processes. Later calls return the result of the first. The error is the reason for
// which the cluster ended earlier, if it did.
func (c *Cluster) Stop() error { return c.stop() }

func (c *Cluster) launch(opts Options) (io.Reader, error) {
	c.process = exec.Command(c.binary, opts.arguments()...)
	if opts.Detach {
		return c.launchDetached(opts.Dir)
	}
	c.process.Stderr = c.stderr
	lifeline, err := c.process.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("make the lifeline of the cluster: %w", err)
	}
	c.lifeline = lifeline
	stdout, err := c.process.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("make the output of the cluster: %w", err)
	}
	if err := c.process.Start(); err != nil {
		return nil, fmt.Errorf("run %s: %w", c.binary, err)
	}
	return stdout, nil
}

// launchDetached gives the cluster its own session, and output files that stay when this process is gone.
func (c *Cluster) launchDetached(dir string) (io.Reader, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the cluster: %w", err)
	}
	log, err := os.Create(filepath.Join(dir, "up.log"))
	if err != nil {
		return nil, fmt.Errorf("make the log of the cluster: %w", err)
	}
	defer log.Close()
	stdout, announcement, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the output of the cluster: %w", err)
	}
	defer announcement.Close()
	c.process.Stdout, c.process.Stderr = announcement, log
	c.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.process.Start(); err != nil {
		return nil, fmt.Errorf("run %s: %w", c.binary, err)
	}
	return stdout, nil
}

// Pid returns the process that ends a detached cluster when it gets SIGTERM.
func (c *Cluster) Pid() int { return c.process.Process.Pid }

// await reads the announcement of a usable cluster.
func (c *Cluster) await(stdout io.Reader) error {
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return errors.New("it ended before it was usable")
	}
	if err != nil {
		return fmt.Errorf("read where the cluster is: %w", err)
	}
	var announced struct{ Kubeconfig, AuditLog, StartedIn string }
	if err := json.Unmarshal(line, &announced); err != nil {
		return fmt.Errorf("read where the cluster is from %q: %w", line, err)
	}
	c.Kubeconfig, c.AuditLog = announced.Kubeconfig, announced.AuditLog
	if c.StartedIn, err = time.ParseDuration(announced.StartedIn); err != nil {
		return fmt.Errorf("read how long the start took: %w", err)
	}
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return fmt.Errorf("read the kubeconfig of the cluster: %w", err)
	}
	c.Config.QPS = -1
	return nil
}

func (c *Cluster) end() error {
	c.commands.stop()
	if c.lifeline != nil {
		_ = c.lifeline.Close()
	} else {
		_ = c.process.Process.Signal(syscall.SIGTERM)
	}
	timer := time.AfterFunc(stopTimeout, func() { _ = c.process.Process.Kill() })
	defer timer.Stop()
	err := c.process.Wait()
	if c.temporary != "" {
		_ = os.RemoveAll(c.temporary)
	}
	if err != nil {
		return fmt.Errorf("run the cluster: %w\n%s", err, c.stderr)
	}
	return nil
}

func (o Options) arguments() []string {
	args := []string{"up", "--dir", o.Dir, "--audit=" + strconv.FormatBool(o.Audit), "--with-parent=" + strconv.FormatBool(!o.Detach)}
	for _, number := range []struct {
		flag  string
		value int
	}{{"--nodes", o.Nodes}, {"--pods-per-node", o.PodsPerNode}, {"--kcm-qps", o.ControllerQPS}} {
		if number.value != 0 {
			args = append(args, number.flag, strconv.Itoa(number.value))
		}
	}
	if o.AuditPolicy != "" {
		args = append(args, "--audit-policy", o.AuditPolicy)
	}
	if o.TypeChecks {
		args = append(args, "--type-checks")
	}
	for _, path := range o.CRDs {
		args = append(args, "--crds", path)
	}
	return args
}
