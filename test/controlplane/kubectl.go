package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Kubectl runs kubectl as the administrator and returns its standard output. The error holds the
// command and what it wrote to standard error. Add --as to act as somebody else.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.kubectl(ctx, nil, args)
}

// KubectlStdin is Kubectl with standard input, as for `apply -f -`.
func (c *Cluster) KubectlStdin(ctx context.Context, stdin string, args ...string) (string, error) {
	out, err := c.kubectl(ctx, strings.NewReader(stdin), args)
	// As a user does who sends a write again that lost a race: `replace` reads a version and may find a controller's write after it.
	for range 5 {
		if err == nil || !strings.Contains(err.Error(), "the object has been modified") {
			break
		}
		out, err = c.kubectl(ctx, strings.NewReader(stdin), args)
	}
	return out, err
}

func (c *Cluster) kubectl(ctx context.Context, stdin io.Reader, args []string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(filepath.Dir(c.binary), "kubectl"), append([]string{"--kubeconfig", c.Kubeconfig}, args...)...)
	// Discovery is cached by address, and a later cluster may get the port of an earlier one.
	command.Env = append(os.Environ(), "KUBECACHEDIR="+filepath.Join(filepath.Dir(c.Kubeconfig), "kubectl-cache"), "KUBERC=off")
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = stdin, &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
