package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/test/ports"
)

// program builds the NATS server as a program of its own, once; TestMain removes it.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "sluice-nats-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "nats-server")
	built = dir
	build := exec.Command("go", "build", "-o", path, "github.com/nats-io/nats-server/v2")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // also when the race detector needs cgo: the server is built like everything else
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build nats-server: %w\n%s", err, out)
	}
	return path, nil
})

var built string

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// process is a NATS server that can be killed.
type process struct {
	*testing.T
	name, config, url string
	running           *exec.Cmd
}

const user, password = "sluice", "correct horse"

// aProcess starts a NATS server at the port, with JetStream and one user. more is added to its configuration.
func aProcess(t *testing.T, name string, port int, more string) *process {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds a NATS server, which -short leaves out")
	}
	dir := t.TempDir()
	p := &process{T: t, name: name, config: filepath.Join(dir, "nats.conf"), url: fmt.Sprintf("nats://127.0.0.1:%d", port)}
	text := fmt.Sprintf("server_name: %s\nlisten: \"127.0.0.1:%d\"\nauthorization { user: %q, password: %q }\njetstream { store_dir: %q }\n%s",
		name, port, user, password, filepath.Join(dir, "store"), more)
	if err := os.WriteFile(p.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.start()
	t.Cleanup(p.kill)
	return p
}

func (p *process) start() {
	p.Helper()
	path, err := program()
	if err != nil {
		p.Fatal(err)
	}
	p.running = exec.Command(path, "--config", p.config)
	if err := p.running.Start(); err != nil {
		p.Fatal(err)
	}
}

// kill ends the process without an orderly shutdown.
func (p *process) kill() {
	if p.running == nil {
		return
	}
	if err := p.running.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.Error(err)
	}
	_ = p.running.Wait() // it reports that the process was killed
	p.running = nil
}

// joined connects to these servers.
func joined(t *testing.T, replicas int, servers ...*process) *queue.Queue {
	t.Helper()
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.url)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	q, err := queue.Connect(ctx, queue.Options{
		URL: strings.Join(urls, ","), User: user, Password: password, Replicas: replicas, Name: t.Name(),
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q
}

func TestAServerOfItsOwnWithAuthentication(t *testing.T) {
	t.Parallel()
	server := aProcess(t, "alone", ports.Free(t), "")
	q := joined(t, 1, server)
	for name, o := range map[string]queue.Options{
		"nobody":           {URL: server.url},
		"a wrong password": {URL: server.url, User: user, Password: "battery staple"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if guest, err := queue.Connect(ctx, o); err == nil {
			guest.Close()
			t.Errorf("%s is let in", name)
		}
		cancel()
	}
	l := underLoad(t, 60, q, joined(t, 1, server), joined(t, 1, server))
	l.hintFor(300 * time.Millisecond)
	l.everyLastHintRuns(patience)
	server.kill()
	at := time.Now()
	l.hintFor(200 * time.Millisecond)
	server.start()
	l.hintFor(300 * time.Millisecond)
	l.everyLastHintRuns(patience)
	longest, _ := l.stall(at)
	t.Logf("killed hard and started again: the longest time without a run was %s", longest.Round(time.Millisecond))
}
