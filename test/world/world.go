// Package world runs all of Sluice for scenario tests: a real control plane with RBAC and audit log, real NATS, and the
// components. Each component has the identity that the installation gives it. The package has no stand-ins. Its one
// invariant is that a scenario sees the same as a user.
package world

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/deploy"
	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/executor"
	"sluice.dev/sluice/pkg/fleethub"
	"sluice.dev/sluice/pkg/fleetlink"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/watcher"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/natsdir"
)

// World is one cluster with Sluice installed in it.
type World struct {
	*controlplane.Cluster
	Name string
	// Installation is where Sluice is installed.
	Installation api.Installation
	NATS         *embedded.Server
	Log          *slog.Logger
	// Hub gives permits to the Rollouts that a fleet governs. Executors that run as processes do not know it.
	Hub *Hub
	// Member connects the executors to the hub of a fleet, in the place of Hub; nil for none. Its options about the cluster itself are set for each executor.
	Member *fleetlink.Options
	// Clock is the clock of the executors and of their links to the hub; nil for time.Now.
	Clock func() time.Time
}

// Options choose a world. The zero value is a cluster named "default" with its own NATS.
type Options struct {
	Name string
	// Installation is where to install Sluice; the zero value is the default installation.
	Installation api.Installation
	// Install installs Sluice in the cluster; nil applies the kustomize base.
	Install func(*World, context.Context) error
	NATS    *embedded.Server
	// LuaDir is a directory with additional scripts.
	LuaDir string
	// Unaudited leaves the audit log out, which costs the API server a good part of its time.
	Unaudited bool
	// Nodes is the number of nodes, 0 means two. PodsPerNode is the room on each; 0 means enough for the pods of all
	// tests of a package.
	Nodes, PodsPerNode int
	// CRDs are definitions in addition to Istio's, by the names of their files in bin/crds.
	CRDs []string
}

// Root is the directory of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Start returns a world in which no component of Sluice runs yet. If Start fails, it ends all that it has started.
func Start(ctx context.Context, dir string, o Options) (*World, error) {
	w := &World{Name: o.Name, Installation: o.Installation, NATS: o.NATS, Log: logger()}
	if w.Name == "" {
		w.Name = "default"
	}
	if w.Installation == (api.Installation{}) {
		w.Installation = api.DefaultInstallation()
	}
	w.Hub = NewHub(w.hinter())
	var crds []string
	for _, name := range append([]string{"istio"}, o.CRDs...) {
		crds = append(crds, filepath.Join(Root(), "bin/crds", name+".yaml"))
	}
	var err error
	if o.PodsPerNode == 0 {
		o.PodsPerNode = 5000
	}
	w.Cluster, err = controlplane.Start(ctx, controlplane.Options{Dir: filepath.Join(dir, "cluster"), Audit: !o.Unaudited, Nodes: o.Nodes, PodsPerNode: o.PodsPerNode, CRDs: crds})
	if err != nil {
		return nil, err
	}
	if w.NATS == nil {
		if w.NATS, err = embedded.Start(embedded.Options{Dir: filepath.Join(dir, "nats"), Logger: w.Log}); err != nil {
			return nil, errors.Join(err, w.Stop())
		}
	}
	install := o.Install
	if install == nil {
		install = (*World).applyManifests
	}
	if err := w.install(ctx, install); err != nil {
		if o.NATS == nil {
			w.NATS.Close()
		}
		return nil, errors.Join(err, w.Stop())
	}
	return w, nil
}

// logger writes to standard error when SLUICE_TEST_LOG is set, and discards all logs otherwise.
func logger() *slog.Logger {
	if os.Getenv("SLUICE_TEST_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// install installs Sluice. It waits until the API server holds changes and refuses Rollouts, because policies take effect
// a moment after their creation. The policy that holds StatefulSets is created last: the API server has all others when
// it has this one.
func (w *World) install(ctx context.Context, install func(*World, context.Context) error) error {
	if err := install(w, ctx); err != nil {
		return fmt.Errorf("install Sluice: %w", err)
	}
	const probe = `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"probe",
		"labels":{"rollouts.kruise.io/workload-type":"statefulset"},"annotations":{"sluice.dev/rollout":"probe"}},
		"spec":{"replicas":1,"selector":{"matchLabels":{"app":"probe"}},"template":{"metadata":{"labels":{"app":"probe"}},
		"spec":{"containers":[{"name":"c","image":"c"}]}}}}`
	if _, err := w.KubectlStdin(ctx, probe, "create", "-n", w.Installation.Namespace, "-f", "-"); err != nil {
		return fmt.Errorf("create probe: %w", err)
	}
	if err := w.AwaitHold(ctx, w.Installation.Namespace, "statefulset/probe"); err != nil {
		return err
	}
	if _, err := w.Kubectl(ctx, "-n", w.Installation.Namespace, "delete", "statefulset", "probe"); err != nil {
		return fmt.Errorf("delete probe: %w", err)
	}
	const refused = `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"Rollout","metadata":{"name":"probe"},
		"spec":{"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"probe"},"strategy":{"canary":{"steps":[]}}}}`
	return awaitPolicy(ctx, "Rollouts without steps are refused", func() (bool, string, error) {
		out, err := w.KubectlStdin(ctx, refused, "create", "-n", w.Installation.Namespace, "--dry-run=server", "-f", "-")
		return err != nil && strings.Contains(err.Error(), "at least one step"), out, err
	})
}

// applyManifests applies the kustomize base, or for another installation what `sluice install --print` prints.
func (w *World) applyManifests(ctx context.Context) error {
	if w.Installation == api.DefaultInstallation() {
		_, err := w.Kubectl(ctx, "apply", "--server-side", "-k", filepath.Join(Root(), "deploy"))
		return err
	}
	manifests, err := deploy.Manifests(w.Installation)
	if err == nil {
		_, err = w.KubectlStdin(ctx, string(manifests), "apply", "--server-side", "-f", "-")
	}
	return err
}

// AwaitHold waits until the API server holds changes of an adopted workload, such as deployment/demo. The API server
// learns of policies and webhooks some time after their creation.
func (w *World) AwaitHold(ctx context.Context, namespace, workload string) error {
	return awaitPolicy(ctx, "changes are held", func() (bool, string, error) {
		out, err := w.Kubectl(ctx, "-n", namespace, "patch", workload, "--dry-run=server",
			"-o", `jsonpath={.metadata.annotations.rollouts\.kruise\.io/in-progressing}`,
			"-p", `{"spec":{"template":{"metadata":{"annotations":{"probe":"x"}}}}}`)
		return err == nil && out != "", out, err
	})
}

// awaitPolicy polls until the API server decides by a policy. No event reports it.
func awaitPolicy(ctx context.Context, what string, decides func() (done bool, out string, err error)) error {
	for {
		done, out, err := decides()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w: %s %v", what, ctx.Err(), out, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// As returns the administrator's config, acting as one of Sluice's service accounts. RBAC and policies then see that
// account.
func (w *World) As(account string) *rest.Config {
	config := rest.CopyConfig(w.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: w.Installation.User(account),
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + w.Installation.Namespace, "system:authenticated"}}
	return config
}

// Connect connects to the NATS of the world.
func (w *World) Connect(ctx context.Context, name string) (*queue.Queue, error) {
	return queue.Connect(ctx, queue.Options{URL: w.NATS.URL(), User: w.NATS.User(), Password: w.NATS.Password(), Name: name, Logger: w.Log})
}

// resync is longer than any test, because tests must advance by events. It is the resync of watchers, and the retry
// interval of analyzers.
const resync = 24 * time.Hour

// RunWatcher starts a watcher. The function stop ends it and waits.
func (w *World) RunWatcher(ctx context.Context) (stop func(), err error) {
	q, err := w.Connect(ctx, "watcher")
	if err != nil {
		return nil, err
	}
	watch, err := watcher.New(watcher.Options{ClusterName: w.Name, Config: w.As(w.Installation.Watcher), Queue: q,
		ScriptConfigMap: types.NamespacedName{Namespace: api.ScriptNamespace, Name: api.ScriptConfigMap},
		Resync:          resync, Scripts: script.NewLibrary(luaconfiguration.FS, ""), Logger: w.Log})
	if err != nil {
		return nil, err
	}
	return w.background(ctx, q, watch.Run), nil
}

// RunExecutor starts an executor. The function stop ends it and waits.
func (w *World) RunExecutor(ctx context.Context, luaDir string) (stop func(), err error) {
	return w.RunExecutorAs(ctx, w.As(w.Installation.Executor), luaDir)
}

// RunExecutorAs starts an executor that uses the test's own config for the API server.
func (w *World) RunExecutorAs(ctx context.Context, config *rest.Config, luaDir string) (stop func(), err error) {
	e, err := w.NewExecutor(ctx, config, luaDir)
	if err != nil {
		return nil, err
	}
	run := e.Run
	if link, is := e.Fleet.(*fleetlink.Link); is {
		run = func(ctx context.Context) error {
			both, ctx := errgroup.WithContext(ctx)
			both.Go(func() error { return link.Run(ctx) })
			both.Go(func() error { return e.Run(ctx) })
			return both.Wait()
		}
	}
	return w.background(ctx, e.Queue, run), nil
}

// NewExecutor returns an executor without starting it. The caller closes its queue, and runs its link to a hub.
func (w *World) NewExecutor(ctx context.Context, config *rest.Config, luaDir string) (*executor.Executor, error) {
	var link *fleetlink.Link
	options := kube.Options{Scripts: script.NewLibrary(luaconfiguration.FS, luaDir),
		ScriptConfigMap: types.NamespacedName{Namespace: api.ScriptNamespace, Name: api.ScriptConfigMap}, Installation: w.Installation, Cluster: w.Name, Logger: w.Log,
		Order: w.Hub.Order}
	if w.Member != nil {
		options.Order = func(r *api.Rollout) (o kube.FleetOrder) {
			o.Generation = link.Generation(types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
			o.Permit, o.Blocked, o.Refused = link.Order(r)
			return o
		}
	}
	kube, err := kube.New(config, options)
	if err != nil {
		return nil, err
	}
	q, err := w.Connect(ctx, "executor")
	if err != nil {
		return nil, err
	}
	if w.Member != nil {
		o := *w.Member
		if o.Member.UID, err = kube.ClusterUID(ctx); err != nil {
			q.Close()
			return nil, err
		}
		o.ClusterName, o.Publish, o.Enforcement, o.Logger = w.Name, q.PublishHint, kube.Enforcement, w.Log.With("cluster", w.Name)
		o.Clock = w.Clock
		link = fleetlink.New(o)
		return executor.New(executor.Options{ClusterName: w.Name, Kube: kube, Queue: q, Workers: 8, HistoryLimit: executor.DefaultHistoryLimit, Clock: w.Clock, Logger: w.Log, Fleet: link}), nil
	}
	return executor.New(executor.Options{ClusterName: w.Name, Kube: kube, Queue: q, Workers: 8, HistoryLimit: executor.DefaultHistoryLimit, Logger: w.Log, Fleet: w.Hub}), nil
}

// RunHub starts an executor of the hub of a fleet, with its keys. The function stop ends it and waits.
func (w *World) RunHub(ctx context.Context, keys func() ([]nkeys.KeyPair, error)) (stop func(), err error) {
	q, err := w.Connect(ctx, "hub")
	if err != nil {
		return nil, err
	}
	hub, err := fleethub.New(fleethub.Options{ClusterName: w.Name, Config: w.As(w.Installation.Executor), Queue: q, Workers: 4, Keys: keys, Logger: w.Log})
	if err != nil {
		q.Close()
		return nil, err
	}
	return w.background(ctx, q, hub.Run), nil
}

func (w *World) background(ctx context.Context, q *queue.Queue, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer q.Close()
		if err := run(ctx); err != nil {
			w.Log.Error("a part ended", "error", err)
		}
	}()
	return func() { cancel(); <-done }
}

var shared struct {
	once     sync.Once
	world    *World
	err      error
	stop     []func()
	executor func(*World) (stop func(), err error)
	crds     []string
}

// ShareExecutor replaces the in-process executors of the shared world with executors that run starts. Call it before
// [Shared].
func ShareExecutor(run func(*World) (stop func(), err error)) { shared.executor = run }

// ShareCRDs makes the shared world serve additional kinds, by the names of files in bin/crds. Call it before [Shared].
func ShareCRDs(names ...string) { shared.crds = names }

// Shared returns the world that all tests of a package use together, each in its own namespace. The package's TestMain
// calls [StopShared] at the end.
func Shared(t testing.TB) *World {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	shared.once.Do(func() { shared.world, shared.err = startShared() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.world
}

func startShared() (*World, error) {
	dir, err := os.MkdirTemp("", "sluice-world-")
	if err != nil {
		return nil, err
	}
	shared.stop = append(shared.stop, func() { _ = natsdir.Remove(dir) })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	w, err := Start(ctx, dir, Options{CRDs: shared.crds})
	if err != nil {
		return nil, err
	}
	shared.stop = append(shared.stop, func() { w.NATS.Close(); _ = w.Stop() })
	execute := func(w *World) (func(), error) { return w.RunExecutor(context.Background(), "") }
	if shared.executor != nil {
		execute = shared.executor
	}
	for _, start := range []func() (func(), error){
		func() (func(), error) { return w.RunWatcher(context.Background()) },
		func() (func(), error) { return execute(w) },
		func() (func(), error) { return w.RunAnalyzer(context.Background(), "127.0.0.1") },
	} {
		stop, err := start()
		if err != nil {
			return nil, err
		}
		shared.stop = append(shared.stop, stop)
	}
	return w, nil
}

// StopShared ends the shared world, if there is one.
func StopShared() {
	for i := len(shared.stop) - 1; i >= 0; i-- {
		shared.stop[i]()
	}
}

// Namespace creates a namespace for a test. When the test has ended, it checks the audit log for breaches of the laws.
// Then it deletes the Rollouts and autoscalers of the namespace, because controllers would go on to reconcile them. The
// other objects stay until the world ends: deleting a namespace costs the control plane more than a release.
func (w *World) Namespace(t testing.TB) string {
	t.Helper()
	name := controlplane.NamespaceFor(t)
	client, err := kubernetes.NewForConfig(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	begun := w.auditSize()
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Minute)
		defer cancel()
		if err := w.leave(ctx, name); err != nil {
			t.Error(err)
		}
	})
	w.witness(t, name, begun, Breaches, Overexposed, StableServes)
	return name
}

// leave deletes the objects of a namespace that controllers would go on to reconcile.
func (w *World) leave(ctx context.Context, namespace string) error {
	client, err := dynamic.NewForConfig(w.Config)
	if err != nil {
		return err
	}
	for _, resource := range []schema.GroupVersionResource{
		api.RolloutResource(), api.TrafficRoutingResource(), {Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
	} {
		if err := client.Resource(resource).Namespace(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			return fmt.Errorf("delete %s of %s: %w", resource.Resource, namespace, err)
		}
	}
	return nil
}

// Do runs kubectl. It fails the test if kubectl fails, or takes too long.
func (w *World) Do(t testing.TB, args ...string) string {
	t.Helper()
	out, err := w.Kubectl(Patient(t), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Apply applies manifests given as text.
func (w *World) Apply(t testing.TB, namespace, manifests string) {
	t.Helper()
	if err := w.Cluster.Apply(t.Context(), namespace, manifests); err != nil {
		t.Fatal(err)
	}
}

// ApplyRival applies a Rollout for a workload that has another one. The API server refuses to create it, so it names its workload only after its creation.
func (w *World) ApplyRival(t testing.TB, namespace, manifest, workload string) {
	t.Helper()
	w.Apply(t, namespace, strings.Replace(manifest, "name: "+workload, "name: not-yet", 1))
	w.Apply(t, namespace, manifest)
}
