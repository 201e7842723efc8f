package watcher

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/test/controlplane"
)

// plane is the control plane that all tests of the package share; nil with -short. Of Sluice it runs only the watchers
// of the tests, under the identity and the permissions of the installation.
var plane *controlplane.Cluster

func TestMain(m *testing.M) {
	os.Exit(controlplane.Main(m, "../..", func(c *controlplane.Cluster) { plane = c }))
}

// scene is a namespace of its own with a watcher that watches all namespaces, and the hints that it sent for this one.
type scene struct {
	t         *testing.T
	namespace string
	watcher   *Watcher
	// wrap wraps the transport between the watcher and the API server; nil wraps nothing.
	wrap func(http.RoundTripper) http.RoundTripper

	mu     sync.Mutex
	hints  map[string]int
	stream time.Time // creation time of the stream that takes the hints
	told   chan struct{}
}

// newScene starts the watcher after prepare has prepared the namespace.
func newScene(t *testing.T, prepare func(*scene)) *scene {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	s := &scene{t: t, namespace: controlplane.NamespaceFor(t), hints: map[string]int{}, stream: time.Now(), told: make(chan struct{}, 1)}
	s.kubectl("", "create", "namespace", s.namespace)
	prepare(s)
	config := rest.CopyConfig(plane.Config)
	if s.wrap != nil {
		config.Wrap(s.wrap)
	}
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + api.DefaultNamespace + ":" + api.DefaultWatcher}
	w, err := New(Options{ClusterName: "c", Config: config, Queue: new(queue.Queue), Logger: slog.New(slog.DiscardHandler),
		Scripts: script.NewLibrary(luaconfiguration.FS, ""), ScriptConfigMap: types.NamespacedName{Namespace: s.namespace, Name: api.ScriptConfigMap}})
	if err != nil {
		t.Fatal(err)
	}
	w.send, w.workStreamCreated, s.watcher = s.take, s.generation, w
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *scene) take(key queue.Key) {
	if key.Namespace != s.namespace {
		return
	}
	name := key.Name
	if key.Task != queue.TaskRelease {
		name += "/" + key.Task
	}
	s.mu.Lock()
	s.hints[name]++
	s.mu.Unlock()
	select {
	case s.told <- struct{}{}:
	default:
	}
}

func (s *scene) generation(context.Context) (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream, nil
}

// seen returns the hints so far.
func (s *scene) seen() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.hints)
}

func (s *scene) kubectl(stdin string, args ...string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), 10*time.Minute)
	defer cancel()
	out, err := plane.KubectlStdin(ctx, stdin, append([]string{"-n", s.namespace}, args...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

func (s *scene) apply(manifests ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), 10*time.Minute)
	defer cancel()
	if err := plane.Apply(ctx, s.namespace, strings.Join(manifests, "\n---\n")); err != nil {
		s.t.Fatal(err)
	}
}

// patch sends a merge patch.
func (s *scene) patch(what, body string, more ...string) {
	s.t.Helper()
	s.kubectl("", append([]string{"patch", what, "--type=merge", "-p", body}, more...)...)
}

// wakes waits until do causes a hint for a Rollout.
func (s *scene) wakes(rollout, what string, do func()) {
	s.t.Helper()
	s.mu.Lock()
	clear(s.hints)
	s.mu.Unlock()
	do()
	timeout := time.After(10 * time.Minute)
	for {
		s.mu.Lock()
		n := s.hints[rollout]
		s.mu.Unlock()
		if n > 0 {
			return
		}
		select {
		case <-s.told:
		case <-timeout:
			s.t.Errorf("Rollout %s is not woken by %s", rollout, what)
			return
		}
	}
}

// calm waits until the watcher has read its first lists, and then until it has sent no hint for a while. Controllers
// may still be busy with earlier changes.
func (s *scene) calm() {
	s.t.Helper()
	for timeout := time.After(10 * time.Minute); s.watcher.Ready() != nil || !s.watcher.kindsSynced(); {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-timeout:
			s.t.Fatal("the watcher has not read its first lists")
		}
	}
	for {
		select {
		case <-s.told:
		case <-time.After(3 * time.Second):
			return
		}
	}
}

// quiet makes sure that do causes no hint. It waits for a hint that a later change, reported by the same watch, causes.
func (s *scene) quiet(rollout, what string, do, after func()) {
	s.t.Helper()
	s.calm()
	s.wakes(rollout, "the end of a quiet time", func() { do(); after() })
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.hints[rollout]; n != 1 {
		s.t.Errorf("Rollout %s is woken %d times, so also by %s", rollout, n, what)
	}
}
