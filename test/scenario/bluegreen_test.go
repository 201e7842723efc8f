package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// green is the walkthrough with a blue-green Rollout.
type green struct{ *demo }

func blueGreen(t *testing.T, steps ...string) string {
	return swap(t, withSteps(t, steps...), "canary:\n", "blueGreen:\n", "      enableExtraWorkloadForCanary: true\n", "      abortScaleDownDelaySeconds: 1\n")
}

// unrouted removes the traffic routing from a Rollout.
func unrouted(text string) string {
	head, _, _ := strings.Cut(text, "      trafficRoutings:")
	return head
}

func beside(t *testing.T, manifests ...string) green {
	t.Helper()
	if len(manifests) == 0 {
		manifests = []string{blueGreen(t, "{replicas: 1, traffic: 0%}", "{replicas: 100%, matches: [{headers: [{type: Exact, name: version, value: canary}]}]}", "{replicas: 100%, traffic: 50%}")}
	}
	return green{aDemo(t, world.Shared(t), manifests...)}
}

func (g green) approve(t *testing.T) {
	t.Helper()
	if err := g.status(t, `{"status":{"blueGreenStatus":{"currentStepState":"StepReady"}}}`); err != nil {
		t.Fatal(err)
	}
}

func (g green) at(t *testing.T, step int32) *api.Rollout {
	t.Helper()
	for n := int32(1); n < step; n++ {
		g.await(t, world.PausedAt(n))
		g.approve(t)
	}
	return g.await(t, world.PausedAt(step))
}

// wantOver checks that all pods run one version and that no part of the release is left.
func (g green) wantOver(t *testing.T, version string) {
	t.Helper()
	g.await(t, world.Healthy)
	g.awaitSets(t, map[string]int32{version: 3})
	g.w.Available(t, g.ns, "workload-demo")
	g.wantRestored(t)
	g.wantFree(t)
}

func TestANewVersionComesBesideTheWholeOldOne(t *testing.T) {
	t.Parallel()
	g := beside(t)
	breaches := watchRoutes(t, g.w, g.ns)
	stable := podsOf(t, g.demo, g.await(t, world.Healthy).Status.BlueGreenStatus.StableRevision)
	g.release(t, version("green"))
	for n, want := range []struct {
		green int32
		route string
	}{{1, weightRoute(0)}, {3, headerRoute}, {3, weightRoute(50)}} {
		r := g.await(t, world.PausedAt(int32(n+1)))
		g.wantSets(t, map[string]int32{"base": 3, "green": want.green})
		if c := r.Status.BlueGreenStatus; r.Status.CanaryStatus != nil || c.UpdatedReplicas != want.green || c.UpdatedReadyReplicas != want.green {
			t.Errorf("step %d shows canaryStatus %v, %d new pods, %d ready", n+1, r.Status.CanaryStatus, c.UpdatedReplicas, c.UpdatedReadyReplicas)
		}
		if now := podsOf(t, g.demo, r.Status.BlueGreenStatus.StableRevision); now != stable {
			t.Errorf("step %d: the stable pods were\n%s\nand are\n%s", n+1, stable, now)
		}
		g.wantBatches(t, r, "green", []string{"1", "1 2 2", "1 2 2"}[n])
		wantSpec(t, g.w, g.ns, "virtualservice", "vs-demo", want.route)
		g.approve(t)
	}
	g.wantOver(t, "green")
	for _, breach := range breaches() {
		t.Error(breach)
	}
}

func TestABlueGreenReleaseIsRolledBack(t *testing.T) {
	t.Parallel()
	for step := int32(1); step <= 3; step++ {
		t.Run(fmt.Sprintf("at step %d", step), func(t *testing.T) {
			t.Parallel()
			g := beside(t)
			g.release(t, version("bad"))
			revision := g.at(t, step).Status.BlueGreenStatus.StableRevision
			stable, breaches := podsOf(t, g.demo, revision), watchRoutes(t, g.w, g.ns)
			g.release(t, version("base"))
			g.wantOver(t, "base")
			if now := podsOf(t, g.demo, revision); now != stable {
				t.Errorf("the stable pods were\n%s\nand are\n%s", stable, now)
			}
			for _, breach := range breaches() {
				t.Error(breach)
			}
		})
	}
}

func TestABlueGreenReleaseTakesNoOtherVersion(t *testing.T) {
	t.Parallel()
	g := beside(t)
	g.release(t, version("v2"))
	g.at(t, 3)
	g.release(t, version("v3"))
	r := g.await(t, world.HeldFor(rollout.ReasonNewVersionRefused))
	if !strings.HasPrefix(r.Status.Message, "new version releasing detected in the progress of blue-green release, please rollback first") {
		t.Errorf("it says %q", r.Status.Message)
	}
	g.wantSets(t, map[string]int32{"base": 3, "v2": 3})
	g.release(t, version("base"))
	g.wantOver(t, "base")
	g.release(t, version("v3"))
	for n := int32(1); n <= 3; n++ {
		g.await(t, world.PausedAt(n))
		g.approve(t)
	}
	g.wantOver(t, "v3")
}

// With one Service for both versions, the executor narrows no Service and creates none.
func TestABlueGreenReleaseMayShareOneService(t *testing.T) {
	t.Parallel()
	g := beside(t, swap(t, blueGreen(t, "{replicas: 100%, traffic: 50%}"), "blueGreen:\n", "blueGreen:\n      disableGenerateCanaryService: true\n"))
	g.release(t, version("green"))
	g.await(t, world.PausedAt(1))
	g.wantSets(t, map[string]int32{"base": 3, "green": 3})
	wantSame(t, g.stable, g.w.Get(t, g.ns, "service", "service-demo"))
	g.approve(t)
	g.wantOver(t, "green")
}

func TestABlueGreenReleaseNeedsAPodThatIsReady(t *testing.T) {
	t.Parallel()
	g := beside(t, unrouted(swap(t, blueGreen(t, "{replicas: 100%}"), "blueGreen:\n", "blueGreen:\n      failureThreshold: 100%\n")))
	g.release(t, version("green", controlplane.NeverReady, "true"))
	r := g.await(t, func(r *api.Rollout) bool { return r.Status.BlueGreenStatus.UpdatedReplicas == 3 })
	if world.PausedAt(1)(r) {
		t.Error("a step without a single ready pod is reached")
	}
	g.release(t, strings.Replace(version("base", controlplane.NeverReady, "true"), `"true"`, "null", 1))
	g.wantOver(t, "base")
}

// After any scaling, the stable version has all the pods that its owner wants, and the new version has its share of
// them.
func TestABlueGreenReleaseIsScaled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		step     string
		at10, at int32 // new pods of 10 replicas, and of 20
	}{
		"a step in percent": {"{replicas: 50%, traffic: 0%}", 5, 10},
		"a step in pods":    {"{replicas: 3, traffic: 0%}", 3, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := beside(t, blueGreen(t, c.step))
			scale := func(n int) {
				g.w.Do(t, "-n", g.ns, "scale", "deployment/workload-demo", fmt.Sprintf("--replicas=%d", n))
			}
			scale(10)
			g.awaitSets(t, map[string]int32{"base": 10})
			g.release(t, version("green"))
			g.await(t, world.PausedAt(1))
			g.awaitSets(t, map[string]int32{"base": 10, "green": c.at10})
			scale(20)
			g.awaitSets(t, map[string]int32{"base": 20, "green": c.at})
			scale(10)
			g.awaitSets(t, map[string]int32{"base": 10, "green": c.at10})
			g.approve(t)
			g.await(t, world.Healthy)
			g.awaitSets(t, map[string]int32{"green": 10})
			g.wantRestored(t)
			g.wantFree(t)
		})
	}
}

// The test applies the manifests of examples/blue-green unchanged. Their release removes an autoscaler from its
// workload.
func TestTheBlueGreenExample(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	ns := w.Namespace(t)
	for _, file := range []string{"workload.yaml", "rollout.yaml"} {
		text, err := os.ReadFile(filepath.Join(world.Root(), "examples/blue-green", file))
		if err != nil {
			t.Fatal(err)
		}
		w.Apply(t, ns, string(text))
	}
	w.Available(t, ns, "checkout")
	w.Await(t, ns, "checkout", world.Healthy)
	awaitAdopted(t, w, ns, "checkout", "checkout")
	scaled := func() string {
		return w.Do(t, "-n", ns, "get", "hpa", "checkout", "-o", "jsonpath={.spec.scaleTargetRef.name}")
	}
	w.Do(t, "-n", ns, "set", "env", "deployment/checkout", "VERSION=green")
	for n := int32(1); n <= 4; n++ {
		w.Await(t, ns, "checkout", world.PausedAt(n))
		if got := scaled(); got != "checkout-DisableByRollout" {
			t.Errorf("in step %d the autoscaler scales %s", n, got)
		}
		w.Do(t, "-n", ns, "patch", "rollout", "checkout", "--subresource=status", "--type=merge", "-p", `{"status":{"blueGreenStatus":{"currentStepState":"StepReady"}}}`)
	}
	r := w.Await(t, ns, "checkout", world.Healthy)
	if c := world.Condition(r, api.ConditionSucceeded); c == nil || c.Status != corev1.ConditionTrue {
		t.Errorf("the condition Succeeded is %+v", c)
	}
	if got := scaled(); got != "checkout" {
		t.Errorf("after the release the autoscaler scales %s", got)
	}
	w.Do(t, "-n", ns, "rollout", "status", "deployment/checkout")
	wantSpec(t, w, ns, "virtualservice", "checkout", "hosts: [checkout]\nhttp:\n- route:\n  - destination: {host: checkout}\n")
}

// scalers are autoscalers of the walkthrough's workload, and one of another.
const scalers = `apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: own}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: workload-demo}, minReplicas: 3, maxReplicas: 5}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: free}
spec: {scaleTargetRef: {name: workload-demo}}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: paused, annotations: {autoscaling.keda.sh/paused: "true"}}
spec: {scaleTargetRef: {name: workload-demo}}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: other}
spec: {scaleTargetRef: {name: another}}
`

// After any end of a release, its autoscalers come back, and a ScaledObject that its owner has paused stays paused.
func TestAutoscalersComeBackHoweverABlueGreenReleaseEnds(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	if err := w.ServeScaledObjects(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, end := range map[string]func(*testing.T, green){
		"success":  func(t *testing.T, g green) { g.approve(t); g.await(t, world.Healthy) },
		"rollback": func(t *testing.T, g green) { g.release(t, version("base")); g.await(t, world.Healthy) },
		"abort": func(t *testing.T, g green) {
			g.command(t, api.CommandAbort)
			g.awaitSets(t, map[string]int32{"base": 3})
		},
		"a deletion": func(t *testing.T, g green) {
			g.w.Do(t, "-n", g.ns, "delete", "rollout", "rollouts-demo", "--timeout=600s")
		},
		"a Rollout that is disabled": func(t *testing.T, g green) {
			if err := g.w.Patch(t, g.ns, "rollout", "rollouts-demo", `{"spec":{"disabled":true}}`); err != nil {
				t.Fatal(err)
			}
			g.await(t, func(r *api.Rollout) bool { return r.Status.Phase == api.PhaseDisabled })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := w.Namespace(t)
			w.Apply(t, ns, scalers)
			g := green{aDemoIn(t, w, ns, blueGreen(t, "{replicas: 100%, traffic: 0%}"))}
			before := scalersOf(t, g)
			g.release(t, version("green"))
			g.await(t, world.PausedAt(1))
			taken := []string{"own: scales workload-demo-DisableByRollout", "free: paused TRUE, was ", "other: paused , was none", "paused: paused TRUE, was true"}
			if diff := cmp.Diff(taken, scalersOf(t, g)); diff != "" {
				t.Errorf("during the release (-want +got):\n%s", diff)
			}
			end(t, g)
			awaitScalers(t, g, before)
		})
	}
}

// The changes that an owner makes to a ScaledObject during a release are there at its end. No change of the release is
// left.
func TestTheOwnersPauseOfAScaledObjectOutlivesTheRelease(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	if err := w.ServeScaledObjects(t.Context()); err != nil {
		t.Fatal(err)
	}
	ns := w.Namespace(t)
	w.Apply(t, ns, scalers)
	g := green{aDemoIn(t, w, ns, blueGreen(t, "{replicas: 50%, traffic: 0%}", "{replicas: 100%, traffic: 0%}"))}
	g.release(t, version("green"))
	g.await(t, world.PausedAt(1))
	for name, annotation := range map[string]string{"paused": "autoscaling.keda.sh/paused-", "free": "autoscaling.keda.sh/paused=true"} {
		w.Do(t, "-n", ns, "annotate", "scaledobject", name, annotation, "--overwrite")
	}
	g.approve(t)
	g.await(t, world.PausedAt(2))
	g.approve(t)
	g.await(t, world.Healthy)
	awaitScalers(t, g, []string{"own: scales workload-demo", "free: paused true, was none", "other: paused , was none", "paused: paused , was none"})
}

// awaitScalers waits until the autoscalers of a namespace are as wanted.
func awaitScalers(t *testing.T, g green, want []string) {
	t.Helper()
	for !slices.Equal(want, scalersOf(t, g)) {
		if t.Context().Err() != nil {
			t.Fatalf("afterwards (-want +got):\n%s", cmp.Diff(want, scalersOf(t, g)))
		}
	}
}

// scalersOf describes the autoscalers of a namespace.
func scalersOf(t *testing.T, g green) (all []string) {
	t.Helper()
	all = append(all, "own: scales "+g.w.Do(t, "-n", g.ns, "get", "hpa", "own", "-o", "jsonpath={.spec.scaleTargetRef.name}"))
	for _, name := range []string{"free", "other", "paused"} {
		var u unstructured.Unstructured
		if err := u.UnmarshalJSON([]byte(g.w.Do(t, "-n", g.ns, "get", "scaledobject", name, "-o", "json"))); err != nil {
			t.Fatal(err)
		}
		was, kept := u.GetAnnotations()["sluice.dev/original.keda-paused"]
		if !kept {
			was = "none"
		}
		all = append(all, fmt.Sprintf("%s: paused %s, was %s", name, u.GetAnnotations()["autoscaling.keda.sh/paused"], was))
	}
	return all
}
