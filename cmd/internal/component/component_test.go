package component

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/health"
)

const kubeconfig = `
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: me, user: {token: t}}]`

// until stops the writer as soon as it has written the text.
type until struct {
	bytes.Buffer
	text string
	stop context.CancelFunc
}

func (u *until) Write(p []byte) (int, error) {
	n, err := u.Buffer.Write(p)
	if strings.Contains(u.String(), u.text) {
		u.stop()
	}
	return n, err
}

// A part whose NATS does not answer keeps trying, and prints the command to type next.
func TestAPartWithoutNATSSaysWhatToTypeNext(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	c := NewCommand("watcher", "watch", func(context.Context, Env, map[string]health.Check) (func(context.Context) error, error) {
		t.Error("it is started without NATS")
		return nil, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	said := &until{text: "sluice check --nats-url nats://127.0.0.1:1", stop: cancel}
	c.SetArgs([]string{"--kubeconfig", file, "--nats-url", "nats://127.0.0.1:1"})
	c.SetErr(said)
	err := c.ExecuteContext(ctx)
	if err == nil {
		t.Fatal("it goes on without NATS")
	}
	what, remedy, _ := strings.Cut(err.Error(), "; ")
	what, ok := strings.CutPrefix(what, "connect to NATS at nats://127.0.0.1:1: ") // the network library words the rest
	want := []any{true, "check that the address is right, that a server runs there (kubectl get pods -A -l app.kubernetes.io/name=sluice-nats) " +
		"and that no network policy or TLS setting is in the way"}
	if diff := cmp.Diff(want, []any{ok && what != "", remedy}); diff != "" {
		t.Errorf("the error differs (-want +got):\n%s", diff)
	}
	if !strings.Contains(said.String(), said.text) {
		t.Errorf("the log is\n%s", said)
	}
}
