package kube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/planner"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/test/controlplane"
)

// plane is the control plane that all tests of the package share; nil with -short.
var plane *controlplane.Cluster

func TestMain(m *testing.M) {
	os.Exit(controlplane.Main(m, "../..", func(c *controlplane.Cluster) { plane = c }, "traefik"))
}

// world is a namespace of its own on the shared control plane.
type world struct {
	t         *testing.T
	namespace string
	client    *kube.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	w := &world{t: t, namespace: controlplane.NamespaceFor(t)}
	w.kubectl("", "create", "namespace", w.namespace)
	w.client = w.clientAs(api.DefaultInstallation().ExecutorUser())
	return w
}

// clientAs returns a client with the rights of a user. The executor has the rights of the shipped roles.
func (w *world) clientAs(user string) *kube.Client {
	w.t.Helper()
	cfg := rest.CopyConfig(plane.Config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user}
	client, err := kube.New(cfg, kube.Options{
		Scripts:         script.NewLibrary(luaconfiguration.FS, ""),
		ScriptConfigMap: types.NamespacedName{Namespace: w.namespace, Name: api.ScriptConfigMap},
		Logger:          slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return client
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// clientThrough returns a client with the executor's rights that reads no scripts of users. The test sees its requests
// and may change them.
func clientThrough(t *testing.T, send func(r *http.Request, next http.RoundTripper) (*http.Response, error)) *kube.Client {
	t.Helper()
	cfg := rest.CopyConfig(plane.Config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: api.DefaultInstallation().ExecutorUser()}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { return send(r, next) })
	})
	client, err := kube.New(cfg, kube.Options{Scripts: script.NewLibrary(luaconfiguration.FS, ""), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (w *world) kubectl(stdin string, args ...string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Minute)
	defer cancel()
	out, err := plane.KubectlStdin(ctx, stdin, append([]string{"-n", w.namespace}, args...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

func (w *world) apply(manifests ...string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Minute)
	defer cancel()
	if err := plane.Apply(ctx, w.namespace, strings.Join(manifests, "\n---\n")); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) get(what, jsonpath string) string {
	w.t.Helper()
	return w.kubectl("", "get", what, "-o", "jsonpath="+jsonpath)
}

func (w *world) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: w.namespace, Name: name}
}

func (w *world) observe(name string) *kube.Snapshot {
	w.t.Helper()
	s, err := w.client.Observe(w.t.Context(), w.key(name))
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

const (
	// patience ends a wait that only a defect can make this long.
	patience = 10 * time.Minute
	// look is the pause between two observations. In it the API server serves other tests.
	look = 10 * time.Millisecond
)

// eventually waits for a change that the control plane makes at its own time.
func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(look) {
		if time.Now().After(end) {
			w.t.Fatalf("it does not come true that %s", what)
		}
	}
}

// drive runs the release as an executor does, and observes again until the release reaches the state.
func (w *world) drive(name string, until rollout.State) *kube.Snapshot {
	w.t.Helper()
	last := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(look) {
		s := w.observe(name)
		for range 50 {
			d := planner.Plan(s.Seen, time.Now())
			last = fmt.Sprint(d.Status.Sluice.State, " ", d.Status.Message, " ", d.Actions)
			if err := w.step(s, d); outdated(err) || apiclient.IsGone(err) {
				break
			} else if err != nil {
				w.t.Fatal(err)
			}
			if rollout.State(s.Seen.Status.Sluice.State) == until {
				return s
			}
			if len(d.Actions) == 0 {
				break
			}
		}
	}
	w.t.Fatalf("the release does not reach %s: %s", until, last)
	return nil
}

// outdated reports whether an error asks for another observation: an object has changed since, or the machine was too
// slow for a create within the fence.
func outdated(err error) bool {
	return apiclient.IsConflict(err) || errors.Is(err, context.DeadlineExceeded)
}

// act carries out one action, and observes again while controllers change the object.
func (w *world) act(action rollout.Action) *kube.Snapshot {
	w.t.Helper()
	for range 20 {
		s := w.observe("web")
		err := w.client.ApplyAction(w.t.Context(), s, action)
		if err == nil {
			return s
		}
		if !outdated(err) {
			w.t.Fatal(err)
		}
	}
	w.t.Fatalf("%s meets a conflict every time", action)
	return nil
}

// orphansLetGo cleans up the workloads of the deleted Rollout web. It tries again while controllers change an object.
func (w *world) orphansLetGo() (count int, err error) {
	w.t.Helper()
	for range 20 {
		var n int
		n, err = w.client.CleanUpOrphanedWorkloads(w.t.Context(), w.key("web"))
		count += n
		if err == nil || !outdated(err) {
			break
		}
	}
	return count, err
}

func (w *world) step(s *kube.Snapshot, d rollout.Decision) error {
	w.t.Helper()
	return w.stepBy(w.client, s, d)
}

func (w *world) stepBy(client *kube.Client, s *kube.Snapshot, d rollout.Decision) error {
	w.t.Helper()
	commit := func() error { return client.CommitStatus(w.t.Context(), s, d.Status) }
	if d.CommitFirst {
		if err := commit(); err != nil {
			return err
		}
	}
	for _, a := range d.Actions {
		if err := client.ApplyAction(w.t.Context(), s, a); err != nil {
			return err
		}
	}
	if !d.CommitFirst {
		return commit()
	}
	return nil
}

// heldImage is the patch of a user who changes the image, after the hold policy has changed it.
func heldImage(tag string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{"rollouts.kruise.io/in-progressing":"{\"rolloutName\":\"web\"}"}},
		"spec":{"paused":true,"template":{"spec":{"containers":[{"name":"web","image":"web:%s"}]}}}}`, tag)
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {team: shop}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1"}]}`

const service = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}`

const virtualService = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web}
spec:
  hosts: [web.example.com]
  http: [{route: [{destination: {host: web}}]}]`

const canaryRollout = `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy:
    canary:
      enableExtraWorkloadForCanary: true
      steps:
      - {replicas: 1, traffic: 20%}
      - {replicas: 100%, traffic: 50%}
      trafficRoutings:
      - service: web
        gracePeriodSeconds: 0
        customNetworkRefs: [{apiVersion: networking.istio.io/v1, kind: VirtualService, name: web}]`

// settled creates the usual objects and waits for the pods.
func (w *world) settled() {
	w.t.Helper()
	w.apply(deployment, service, virtualService, canaryRollout)
	w.kubectl("", "wait", "deployment/web", "--for=condition=Available", "--timeout=600s")
}

func state(s *kube.Snapshot) rollout.State {
	if s.Seen.Status.Sluice == nil {
		return rollout.StateIdle
	}
	return rollout.State(s.Seen.Status.Sluice.State)
}

func reasons(problems []rollout.Problem) []api.Reason {
	var all []api.Reason
	for _, p := range problems {
		all = append(all, p.Reason)
	}
	return all
}
