package scenario

import (
	"context"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	appsv1 "k8s.io/api/apps/v1"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// oldShape is the Rollout of the walkthrough in its v1alpha1 form.
const oldShape = `
apiVersion: rollouts.kruise.io/v1alpha1
kind: Rollout
metadata: {name: rollouts-demo}
spec:
  objectRef:
    workloadRef: {apiVersion: apps/v1, kind: Deployment, name: workload-demo}
  strategy:
    canary:
      steps:
      - replicas: 1
        matches: [{headers: [{type: Exact, name: version, value: canary}]}]
      - weight: 50
      - weight: 80
      trafficRoutings:
      - service: service-demo
        customNetworkRefs: [{apiVersion: networking.istio.io/v1alpha3, kind: VirtualService, name: vs-demo}]
`

func TestAGitOpsActorOnTheDeploymentNeverRaisesExposure(t *testing.T) {
	for name, way := range world.Ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			actorOnTheDeployment(t, way, world.Seed(t, "istio-walkthrough/rollout.yaml"))
		})
		t.Run(name+" in place", func(t *testing.T) {
			t.Parallel()
			actorOnTheDeployment(t, way, inPlace(world.Seed(t, "istio-walkthrough/rollout.yaml")))
		})
		t.Run(name+" beside", func(t *testing.T) {
			t.Parallel()
			actorOnTheDeployment(t, way, blueGreen(t, "{replicas: 1, traffic: 20%}", "{replicas: 100%, traffic: 50%}", "{replicas: 100%, traffic: 80%}"))
		})
		t.Run(name+" in v1alpha1", func(t *testing.T) {
			t.Parallel()
			actorOnTheDeployment(t, way, oldShape)
		})
	}
}

// actorOnTheDeployment releases while an actor applies the new Deployment again. The progress deadline is one second,
// so it would pass many times while the release waits. The owner sets it only after the first pods are
// ready, because they may need longer.
func actorOnTheDeployment(t *testing.T, way world.Way, rollout string) {
	w := world.Shared(t)
	ns := w.Namespace(t)
	manifest := world.Seed(t, "istio-walkthrough/workload.yaml")
	_, deployment, _ := strings.Cut(strings.Replace(manifest, "  replicas: 3\n", "  replicas: 3\n  progressDeadlineSeconds: 1\n", 1), "---\n")
	w.Apply(t, ns, manifest)
	w.Apply(t, ns, world.Seed(t, "istio-walkthrough/virtualservice.yaml"))
	w.Apply(t, ns, rollout)
	w.Await(t, ns, "rollouts-demo", world.Healthy)
	w.Do(t, "-n", ns, "rollout", "status", "deployment/workload-demo")
	w.Apply(t, ns, deployment)

	style := "canary"
	switch {
	case strings.Contains(rollout, "blueGreen:"):
		style = "blue-green"
	case rollout == oldShape:
		style = "v1alpha1"
	}
	breaches := watchHold(t, w, ns)
	a := w.Act(t, way, w.Client(t, ns, "deployment"), manifestIn(t, ns, strings.Replace(deployment, "value: base", "value: canary", 1)))
	for step := range int32(3) {
		w.Await(t, ns, "rollouts-demo", world.PausedAt(step+1))
		a.Rounds(t, 2) // the first one after a write of Sluice may take fields over
		before := w.Object(t, ns, "deployment", "workload-demo")
		a.Rounds(t, 3)
		if diff := cmp.Diff(world.Written(before), world.Written(w.Object(t, ns, "deployment", "workload-demo"))); diff != "" {
			t.Errorf("step %d: the same manifest again changed the Deployment, so there is a write war (-before +after):\n%s", step+1, diff)
		}
		(&demo{w: w, ns: ns}).approveIn(t, style)
	}
	w.Await(t, ns, "rollouts-demo", world.Healthy)
	a.Stop()
	if seconds, _, _ := unstructured.NestedInt64(w.Get(t, ns, "deployment", "workload-demo").Object, "spec", "progressDeadlineSeconds"); seconds != 1 {
		t.Errorf("its owner's progressDeadlineSeconds is %d afterwards", seconds)
	}
	for _, breach := range breaches() {
		t.Error(breach)
	}
}

// watchHold records each state of the Deployment in which it rolls out by itself before all approvals, or in which it
// counts as failed.
func watchHold(t *testing.T, w *world.World, ns string) (breaches func() []string) {
	t.Helper()
	client, err := kubernetes.NewForConfig(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	events, err := controlplane.Watch(ctx, client.AppsV1().Deployments(ns), metav1.ListOptions{FieldSelector: "metadata.name=workload-demo"})
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	var watching sync.WaitGroup
	watching.Go(func() {
		for e := range events.ResultChan() {
			d, ok := e.Object.(*appsv1.Deployment)
			if !ok || e.Type == watch.Deleted {
				continue
			}
			list = append(list, holdBreaches(d)...)
		}
	})
	return sync.OnceValue(func() []string { cancel(); watching.Wait(); return list })
}

func holdBreaches(d *appsv1.Deployment) []string {
	var list []string
	_, marked := d.Annotations["rollouts.kruise.io/in-progressing"]
	_, parked := d.Annotations["sluice.dev/original.maxSurge"]
	if marked && !d.Spec.Paused && (!parked || d.Spec.MinReadySeconds != math.MaxInt32-1) {
		list = append(list, "the Deployment ran free during its release, at resourceVersion "+d.ResourceVersion)
	}
	if marked && !parked && d.Status.UpdatedReplicas > 0 && d.Status.ObservedGeneration == d.Generation {
		list = append(list, "the Deployment has new pods of its own during its release, at resourceVersion "+d.ResourceVersion)
	}
	for _, c := range d.Status.Conditions {
		if marked && c.Type == appsv1.DeploymentProgressing && c.Reason == "ProgressDeadlineExceeded" {
			list = append(list, "the held Deployment counts as failed, at resourceVersion "+d.ResourceVersion)
		}
	}
	return list
}

func TestAGitOpsActorOnTheRouteIsAConflictAndNotFought(t *testing.T) {
	for name, way := range world.Ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.Shared(t)
			ns := w.Namespace(t)
			route := world.Seed(t, "istio-walkthrough/virtualservice.yaml")
			w.Apply(t, ns, world.Seed(t, "istio-walkthrough/workload.yaml"))
			w.Apply(t, ns, route)
			w.Apply(t, ns, world.Seed(t, "istio-walkthrough/rollout.yaml"))
			w.Await(t, ns, "rollouts-demo", world.Healthy)
			w.Do(t, "-n", ns, "rollout", "status", "deployment/workload-demo")

			a := w.Act(t, way, w.Client(t, ns, "virtualservice"), manifestIn(t, ns, route))
			w.Do(t, "-n", ns, "patch", "deployment", "workload-demo", "-p", patchVersion)
			r := w.Await(t, ns, "rollouts-demo", world.HeldFor(rollout.ReasonRouteConflict))
			if !strings.Contains(r.Status.Message, "VirtualService vs-demo") || !strings.Contains(r.Status.Message, "ignoreDifferences") {
				t.Errorf("the message does not say what to do: %s", r.Status.Message)
			}
			a.Rounds(t, 2)
			before := w.Object(t, ns, "virtualservice", "vs-demo")
			a.Rounds(t, 3)
			after := w.Object(t, ns, "virtualservice", "vs-demo")
			if before.GetResourceVersion() != after.GetResourceVersion() {
				t.Error("the VirtualService still changes: there is a write war")
			}
			if strings.Contains(toJSON(t, after.Object["spec"]), "service-demo-canary") {
				t.Error("the contested VirtualService still routes to the canary")
			}
			a.Stop()
			w.Do(t, "-n", ns, "delete", "rollout", "rollouts-demo", "--timeout=600s")
		})
	}
}

// manifestIn returns a manifest with a namespace.
func manifestIn(t *testing.T, ns, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetNamespace(ns)
	return u
}
