package component_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"sluice.dev/sluice/cmd/internal/component"
	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/test/natsdir"
)

const host = "https://127.0.0.1:1"

const kubeconfig = `
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: "` + host + `"}}]
users: [{name: me, user: {token: t}}]`

// flags parses a command line for the cluster above, as a user with a separate home directory.
func flags(t *testing.T, args ...string) *component.NATSFlags {
	t.Helper()
	home := natsdir.ForTest(t) // one test starts the NATS of sluice run there
	for _, name := range []string{"HOME", "XDG_CACHE_HOME"} {
		t.Setenv(name, home)
	}
	for _, name := range []string{"NATS_URL", "NATS_USER", "NATS_PASSWORD"} {
		t.Setenv(name, "")
	}
	file := filepath.Join(home, "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f := component.AddNATSFlags(set, &component.Kube{Kubeconfig: file})
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTheNATSOfSluiceRunIsFoundByItself(t *testing.T) {
	f := flags(t)
	dir := component.NATSDir(host)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := embedded.Start(embedded.Options{Dir: dir, SaveCredentials: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	q, err := f.ConnectQueue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if !q.IsConnected() {
		t.Error("it is not connected")
	}
}

func TestWhatIsNamedGoesBeforeTheNoteOfSluiceRun(t *testing.T) {
	f := flags(t, "--nats-url", "nats://127.0.0.1:2", "--nats-user", "me")
	note := component.NATSNote(component.NATSDir(host))
	if err := os.MkdirAll(filepath.Dir(note), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(note, []byte("NATS_URL=nats://127.0.0.1:3\nNATS_USER=other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, from, err := f.QueueOptions()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"nats://127.0.0.1:2", "me", ""}, []string{o.URL, o.User, from}); diff != "" {
		t.Error(diff)
	}
}

func TestWithoutAnyNATSTheErrorSaysWhatToName(t *testing.T) {
	tests := map[string]struct {
		note string
		want string
	}{
		"nothing is known":                 {"", "No NATS was named and no sluice run works for this cluster on this machine"},
		"a sluice run was killed long ago": {"NATS_URL=nats://127.0.0.1:1\n", "if sluice run has ended, start it again"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := flags(t)
			if tt.note != "" {
				note := component.NATSNote(component.NATSDir(host))
				if err := os.MkdirAll(filepath.Dir(note), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(note, []byte(tt.note), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // no server answers anyway
			_, err := f.ConnectQueue(ctx)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the error is: %v", err)
			}
		})
	}
}
