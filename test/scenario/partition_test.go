package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// inPlace changes a Rollout of the walkthrough to partition style, which is the default.
func inPlace(manifest string) string {
	return strings.Replace(manifest, "      enableExtraWorkloadForCanary: true\n", "", 1)
}

// sets returns the number of pods of each revision of the workload, by the variable in its template.
func (d *demo) sets(t *testing.T) map[string]int32 {
	t.Helper()
	client, err := kubernetes.NewForConfig(d.w.Config)
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.AppsV1().ReplicaSets(d.ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods := map[string]int32{}
	for _, set := range list.Items {
		if *set.Spec.Replicas > 0 {
			pods[set.Spec.Template.Spec.Containers[0].Env[0].Value] += *set.Spec.Replicas
		}
	}
	return pods
}

func (d *demo) wantSets(t *testing.T, want map[string]int32) {
	t.Helper()
	if got := d.sets(t); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the workload runs %v, not %v", got, want)
	}
}

// deployment returns the current workload.
func (d *demo) deployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	client, err := kubernetes.NewForConfig(d.w.Config)
	if err != nil {
		t.Fatal(err)
	}
	deployment, err := client.AppsV1().Deployments(d.ns).Get(t.Context(), "workload-demo", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return deployment
}

// wantFree checks that the workload has its owner's values again.
func (d *demo) wantFree(t *testing.T) {
	t.Helper()
	got := d.deployment(t)
	if s := got.Spec; s.Paused || s.MinReadySeconds != 0 || *s.ProgressDeadlineSeconds != 600 || s.Strategy.RollingUpdate == nil ||
		s.Strategy.RollingUpdate.MaxSurge.String() != "25%" || s.Strategy.RollingUpdate.MaxUnavailable.String() != "25%" {
		t.Errorf("the workload has paused %t, minReadySeconds %d, progressDeadlineSeconds %d, strategy %v", s.Paused, s.MinReadySeconds, *s.ProgressDeadlineSeconds, s.Strategy)
	}
}

// wantBatches checks that exactly the pods of a version have the labels of the release and of their batches.
func (d *demo) wantBatches(t *testing.T, r *api.Rollout, version, batches string) {
	t.Helper()
	labelled := d.w.Do(t, "-n", d.ns, "get", "pods", "-l", api.LabelRolloutID, "-o", `jsonpath={range .items[*]}{.spec.containers[0].env[0].value}`+
		` of {.metadata.labels.rollouts\.kruise\.io/rollout-id} in {.metadata.labels.rollouts\.kruise\.io/rollout-batch-id}{"\n"}{end}`)
	got := strings.Split(strings.TrimSpace(labelled), "\n")
	slices.Sort(got)
	var want []string
	for _, batch := range strings.Fields(batches) {
		want = append(want, fmt.Sprintf("%s of %s in %s", version, idOf(r), batch))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("step %d: the pods that tell their release and batch (-want +got):\n%s", r.Status.CurrentStepIndex, diff)
	}
}

// The manifest is the printed text, except for the name of its Service, with the default grace period of three seconds.
func TestTheWalkthroughAsPrintedReplacesPodsInPlace(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t), inPlace(world.Seed(t, "istio-walkthrough/rollout.yaml")))
	d.release(t, version("canary"))
	for n, want := range []map[string]int32{{"base": 2, "canary": 1}, {"base": 1, "canary": 2}, {"base": 1, "canary": 2}} {
		r := d.await(t, world.PausedAt(int32(n+1)))
		d.wantSets(t, want)
		d.wantBatches(t, r, "canary", []string{"1", "1 2", "1 2"}[n])
		if got := r.Status.CanaryStatus; got.CanaryReplicas != want["canary"] || got.CanaryReadyReplicas != want["canary"] {
			t.Errorf("step %d shows %d new pods, %d ready", n+1, got.CanaryReplicas, got.CanaryReadyReplicas)
		}
		wantSpec(t, d.w, d.ns, "virtualservice", "vs-demo", []string{headerRoute, weightRoute(50), weightRoute(80)}[n])
		d.approve(t)
	}
	d.await(t, world.Healthy)
	d.w.Available(t, d.ns, "workload-demo")
	d.wantSets(t, map[string]int32{"canary": 3})
	d.wantRestored(t)
	d.wantFree(t)
}

// wantBudget checks that none of three pods was missing, and that at most one was added: a quarter, as Kubernetes
// rounds it.
func wantBudget(t *testing.T, bounds func() (fewest, most int64)) {
	t.Helper()
	if fewest, most := bounds(); fewest < 3 || most > 4 {
		t.Errorf("there were %d ready pods at the fewest and %d at the most, where 3 and 4 are allowed", fewest, most)
	}
}

func TestPodsReplacedInPlaceAreRolledBack(t *testing.T) {
	t.Parallel()
	for step := int32(1); step <= 3; step++ {
		t.Run(fmt.Sprintf("at step %d", step), func(t *testing.T) {
			t.Parallel()
			d := aDemo(t, world.Shared(t), inPlace(shortGrace(t)))
			bounds := d.watchBudget(t)
			d.release(t, version("bad"))
			d.at(t, step)
			d.release(t, version("base"))
			d.await(t, world.Healthy)
			d.wantSets(t, map[string]int32{"base": 3})
			wantBudget(t, bounds)
			d.wantRestored(t)
			d.wantFree(t)
		})
	}
}

// awaitSets waits until exactly these pods run.
func (d *demo) awaitSets(t *testing.T, want map[string]int32) {
	t.Helper()
	client, err := kubernetes.NewForConfig(d.w.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := world.Patient(t)
	watching, err := controlplane.Watch(ctx, client.AppsV1().ReplicaSets(d.ns), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	for fmt.Sprint(d.sets(t)) != fmt.Sprint(want) {
		select {
		case <-watching.ResultChan():
		case <-ctx.Done():
			t.Fatalf("the workload runs %v, not %v", d.sets(t), want)
		}
	}
}

// command writes a command for the release under way.
func (d *demo) command(t *testing.T, action api.CommandAction) {
	t.Helper()
	r := d.await(t, func(r *api.Rollout) bool { return r.Status.Sluice != nil })
	patch := fmt.Sprintf(`{"status":{"command":{"action":%q,"epoch":%d,"pauseSeq":%d,"actor":"admin"}}}`, action, r.Status.Sluice.Epoch, r.Status.Sluice.PauseSeq)
	if err := d.status(t, patch); err != nil {
		t.Fatal(err)
	}
}

// An autoscaler scales the workload down and up again. A share stays the same at every step and on the way. The new
// pods never exceed the share of the larger number, and the owner's budget holds.
func TestSharesFollowAnAutoscalerInPlace(t *testing.T) {
	t.Parallel()
	const scaler = `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: own},
		spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: workload-demo}, minReplicas: %[1]d, maxReplicas: %[1]d}}`
	for n, want := range []struct{ at20, at10 int32 }{{2, 1}, {10, 5}, {16, 8}} {
		step := int32(n + 1)
		t.Run(fmt.Sprintf("at step %d", step), func(t *testing.T) {
			t.Parallel()
			d := aDemo(t, world.Shared(t), inPlace(withSteps(t, "{replicas: 10%, traffic: 10%}", "{replicas: 50%, traffic: 50%}", "{replicas: 80%, traffic: 80%}")))
			d.scale(t, 20)
			d.w.Available(t, d.ns, "workload-demo")
			bounds := d.watchBudget(t)
			d.release(t, version("new"))
			d.at(t, step)
			d.wantSets(t, map[string]int32{"base": 20 - want.at20, "new": want.at20})
			highest := d.watchSet(t, "new")
			// The autoscaler needs no metrics to keep within its bounds.
			d.w.Apply(t, d.ns, fmt.Sprintf(scaler, 10))
			d.awaitSets(t, map[string]int32{"base": 10 - want.at10, "new": want.at10})
			d.w.Apply(t, d.ns, fmt.Sprintf(scaler, 20))
			d.awaitSets(t, map[string]int32{"base": 20 - want.at20, "new": want.at20})
			if got := highest(); got > int64(want.at20) {
				t.Errorf("on the way there were %d new pods, where %d are the share of twenty", got, want.at20)
			}
			d.finish(t, step)
			d.awaitSets(t, map[string]int32{"new": 20})
			d.wantFree(t)
			// A quarter may be missing, and a quarter added: at least for ten pods, at most for twenty.
			if fewest, most := bounds(); fewest < 8 || most > 25 {
				t.Errorf("there were %d ready pods at the fewest and %d at the most, where 8 and 25 are allowed", fewest, most)
			}
		})
	}
}
