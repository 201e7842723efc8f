package helm

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// installed is a world in which Helm has installed Sluice.
type installed struct {
	*world.World
	command, home string
	stops         []func()
}

// In any namespace, an upgrade, a rollback and uninstalling of the chart change nothing about a release that is under way, and it continues afterwards.
func TestAReleaseIsNotHarmedByWhatHappensToTheChart(t *testing.T) {
	t.Parallel()
	for _, command := range commands {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			older, newer := packaged(t, command, home, "0.1.0"), packaged(t, command, home, "0.1.1")
			w := &installed{command: command, home: home}
			install := func(of *world.World, ctx context.Context) error {
				_, err := helm(ctx, command, home, of.Kubeconfig, "install", "delivery", older, "-n", "progressive", "--create-namespace",
					"--set", "watcher.serviceAccount.name=eyes,executor.serviceAccount.name=hands,analyzer.serviceAccount.name=scales")
				return err
			}
			w.World = world.Bare(t, world.Options{
				Installation: api.Installation{Namespace: "progressive", Watcher: "eyes", Executor: "hands", Analyzer: "scales"}, Install: install,
			})
			w.begin(t)
			t.Cleanup(w.end)
			w.WantFit(t)

			const ns, rollout = "shop", "rollouts-demo"
			w.Do(t, "create", "namespace", ns)
			w.Judge(t, ns, world.Breaches, world.Overexposed, world.StableServes)
			manifest := world.Seed(t, "istio-walkthrough/workload.yaml") + "\n---\n" + world.Seed(t, "istio-walkthrough/virtualservice.yaml")
			w.Apply(t, ns, manifest+"\n---\n"+world.Seed(t, "istio-walkthrough/rollout.yaml"))
			w.Available(t, ns, "workload-demo")
			w.AwaitObject(t, ns, "deployment", "workload-demo", "to be adopted", func(u *unstructured.Unstructured) bool {
				return u != nil && u.GetAnnotations()[api.AnnotationRollout] == rollout
			})
			w.Apply(t, ns, strings.Replace(manifest, "value: base", "value: canary", 1))
			w.Await(t, ns, rollout, world.PausedAt(1))

			w.harmless(t, ns, "upgrade", "delivery", newer, "-n", "progressive", "--reuse-values", "--set", "executor.replicas=4,nats.replicas=3")
			w.WantFit(t)
			w.Approve(t, ns, rollout)
			w.Await(t, ns, rollout, world.PausedAt(2))

			w.harmless(t, ns, "rollback", "delivery", "1", "-n", "progressive")
			w.WantFit(t)
			w.Approve(t, ns, rollout)
			w.Await(t, ns, rollout, world.PausedAt(3))

			w.end() // the pods go with their Deployments
			w.harmless(t, ns, "uninstall", "delivery", "-n", "progressive")
			if left := w.Do(t, "get", "mutatingadmissionpolicies,validatingadmissionpolicies,clusterroles", "-o", "name"); strings.Contains(left, "/sluice-") {
				t.Errorf("uninstalling has left:\n%s", left)
			}
			if err := install(w.World, t.Context()); err != nil {
				t.Fatal(err)
			}
			w.begin(t)
			w.Approve(t, ns, rollout)
			w.Await(t, ns, rollout, world.Healthy)
		})
	}
}

// packaged returns the path of the packaged chart with a version.
func packaged(t *testing.T, command, home, version string) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := helm(t.Context(), command, home, "", "package", chart(), "--version", version, "-d", dir); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "sluice-"+version+".tgz")
}

// begin runs a watcher and an executor. The pods of the test's nodes run nothing.
func (w *installed) begin(t *testing.T) {
	t.Helper()
	for _, part := range []func(context.Context) (func(), error){w.RunWatcher, w.Executor} {
		stop, err := part(context.WithoutCancel(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		w.stops = append(w.stops, stop)
	}
}

func (w *installed) end() {
	for _, stop := range w.stops {
		stop()
	}
	w.stops = nil
}

// harmless runs helm, and checks that no spec of the release under way has changed, and that it is at the same step. Controllers may still write statuses.
func (w *installed) harmless(t *testing.T, namespace string, args ...string) {
	t.Helper()
	objects := func() string {
		return w.Do(t, "-n", namespace, "get", "rollouts,deployments,replicasets,services,virtualservices", "-o",
			`jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.uid} {.metadata.generation} {.spec.selector} {.status.canaryStatus.currentStepIndex} {.status.canaryStatus.currentStepState}{"\n"}{end}`)
	}
	before := objects()
	if _, err := helm(t.Context(), w.command, w.home, w.Kubeconfig, args...); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, objects()); diff != "" {
		t.Errorf("helm %s changes the release (-before +after):\n%s", args[0], diff)
	}
}
