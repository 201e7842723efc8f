package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/workload"
	"sluice.dev/sluice/test/world"
)

// story is a release over a fleet that is played repeatedly.
type fleetStory string

const (
	// succeeded: a user approves the first wave, and the release succeeds.
	succeeded fleetStory = "succeeded"
	// failed: the first cluster has completed, and a user aborts the release in the second one. That exceeds the budget, and the
	// fleet withdraws the version.
	failed fleetStory = "failed"
	// superseded: a newer version comes while the first cluster is at the hold of its wave.
	superseded fleetStory = "superseded"
	// patched: as succeeded, and the clusters set the images themselves.
	patched fleetStory = "patched"
)

func fleetStories() []fleetStory { return []fleetStory{succeeded, failed, superseded, patched} }

// waves returns the waves of a story, and what happens on failures.
func (s fleetStory) waves() string {
	first, more := "pause: {}", ""
	switch s {
	case failed:
		more = "\n  localPauses: Keep\n  onFailure: {budget: Withdraw}"
	case superseded:
		first = "holdAt: {step: 1, pause: {}}"
	case patched:
		more = "\n  delivery: Patch"
	}
	return fmt.Sprintf(`
  waves:
  - {name: canary, clusters: {matchLabels: {tier: canary}}, %s}
  - {name: rest}%s`, first, more)
}

// workloadOfFleet and governedRollout are in each member, and their governor is at the hub.
const workloadOfFleet = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: app, annotations: {sluice.dev/version: v1}}
spec:
  replicas: 3
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec: {containers: [{name: c, image: "app:1"}]}
`

const governedRollout = `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: app}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: app}
  fleet: {namespace: NAMESPACE, name: app}
  strategy: {canary: {steps: [{replicas: 1, pause: {}}, {replicas: 2, pause: {}}]}}
`

const governor = `
apiVersion: sluice.dev/v1alpha1
kind: FleetRollout
metadata: {name: app}
spec:
  clusters: {matchLabels: {run: NAMESPACE}}
  release: {version: v2, images: {c: "app:2"}}`

// fleetRun is a story in one namespace.
type fleetRun struct {
	*fleetCrew
	story fleetStory
	// histories have all changes in each cluster.
	histories map[string]*history
}

// apply creates an object in a cluster.
func (f *fleetRun) apply(ctx context.Context, in *plane, manifest string) error {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(manifest, "NAMESPACE", f.namespace)), &u.Object); err != nil {
		return err
	}
	kinds := map[string]schema.GroupVersionResource{
		"Deployment": world.InPlace.Resource(), api.KindRollout: api.RolloutResource(), api.KindFleetRollout: api.FleetRolloutResource(), api.KindFleetMember: api.FleetMemberResource(),
	}
	var client dynamic.ResourceInterface = in.objects.Resource(kinds[u.GetKind()])
	if u.GetKind() != api.KindFleetMember {
		client = in.objects.Resource(kinds[u.GetKind()]).Namespace(f.namespace)
	}
	if _, err := client.Create(ctx, u, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create %s in %s: %w", u.GetKind(), in.name, err)
	}
	return nil
}

// join makes both clusters members.
func (f *fleetRun) join(ctx context.Context) error {
	for name, tier := range map[string]string{"eu1": "canary", "eu2": "prod"} {
		manifest, err := f.manifestOf(f.members[name], tier)
		if err != nil {
			return err
		}
		if err := f.apply(ctx, f.ground.eu1, manifest); err != nil {
			return err
		}
	}
	return nil
}

// release plays the story. It returns when no part of the release is left.
func (f *fleetRun) release(ctx context.Context) error {
	if err := f.installed(ctx); err != nil {
		return err
	}
	f.begin()
	first, second := f.deliver, f.govern
	switch f.story {
	case failed:
		first, second = second, first
	case patched:
		first = func(context.Context) error { return nil }
	}
	if err := first(ctx); err != nil {
		return err
	}
	if err := second(ctx); err != nil {
		return err
	}
	var err error
	switch f.story {
	case succeeded, patched:
		err = f.decide(ctx, api.FleetCommandApprove)
	case failed:
		err = f.failInTheSecondWave(ctx)
	case superseded:
		err = f.supersede(ctx)
	}
	if err != nil {
		return err
	}
	return f.settled(ctx)
}

// installed creates the first version everywhere, and waits until it serves.
func (f *fleetRun) installed(ctx context.Context) error {
	inAll := func(manifest, what string, reached func(objects) bool) error {
		for _, p := range f.ground.planes() {
			if err := f.apply(ctx, p, manifest); err != nil {
				return err
			}
		}
		for _, p := range f.ground.planes() {
			if err := f.histories[p.name].await(ctx, what+" in "+p.name, reached); err != nil {
				return err
			}
		}
		return nil
	}
	// A workload that is there before its Rollout is no first install, which would run without a permit.
	if err := inAll(workloadOfFleet, "the pods", func(live objects) bool { d := live["deployments/"+app]; return d != nil && available(d) }); err != nil {
		return err
	}
	return inAll(governedRollout, "the first version", func(live objects) bool { return live.adopted("v1") })
}

// govern creates the FleetRollout, which names the second version.
func (f *fleetRun) govern(ctx context.Context) error {
	return f.apply(ctx, f.ground.eu1, governor+f.story.waves())
}

// deliver applies the second version in all clusters, and waits until they hold it.
func (f *fleetRun) deliver(ctx context.Context) error {
	return f.deliverVersion(ctx, 2)
}

func (f *fleetRun) deliverVersion(ctx context.Context, n int) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"sluice.dev/version":"v%d"}},"spec":{"template":{"spec":{"containers":[{"name":"c","image":"app:%d"}]}}}}`, n, n)
	for _, p := range f.ground.planes() {
		workloads := p.objects.Resource(world.InPlace.Resource()).Namespace(f.namespace)
		if err := workload.OnceKnown(ctx, func(ctx context.Context) error {
			_, err := workloads.Patch(ctx, app, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		}); err != nil {
			return fmt.Errorf("deliver the version to %s: %w", p.name, err)
		}
	}
	return nil
}

// awaitHub waits until the FleetRollout has reached a state.
func (f *fleetRun) awaitHub(ctx context.Context, what string, reached func(*api.FleetRollout) bool) (*api.FleetRollout, error) {
	var r *api.FleetRollout
	err := f.histories["eu1"].await(ctx, what+" at the hub", func(live objects) bool {
		r = live.fleetRollout()
		return reached(r)
	})
	if err != nil {
		err = fmt.Errorf("%w; the FleetRollout is %s %s: %s", err, r.Status.Phase, r.Status.Reason, r.Status.Message)
	}
	return r, err
}

// decide waits for the pause of the first wave, and gives the FleetRollout a command.
func (f *fleetRun) decide(ctx context.Context, action api.FleetCommandAction) error {
	r, err := f.awaitHub(ctx, "the pause", func(r *api.FleetRollout) bool {
		return r.Status.Phase == api.FleetPhaseWaiting && r.Status.Reason == "Approval" && r.Status.Command == nil
	})
	if err != nil {
		return err
	}
	return f.command(ctx, r, api.FleetCommand{Action: action})
}

func (f *fleetRun) command(ctx context.Context, r *api.FleetRollout, c api.FleetCommand) error {
	c.Actor, c.Epoch, c.PauseSeq = "admin", r.Status.Epoch, r.Status.PauseSeq
	return f.patchStatus(ctx, f.ground.eu1, api.FleetRolloutResource(), map[string]any{"command": c})
}

// patchStatus writes a part of a status, as a user.
func (f *fleetRun) patchStatus(ctx context.Context, in *plane, of schema.GroupVersionResource, status map[string]any) error {
	body, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	if _, err = in.objects.Resource(of).Namespace(f.namespace).Patch(ctx, app, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "tester"}, "status"); err != nil {
		return fmt.Errorf("patch the status of %s in %s: %w", of.Resource, in.name, err)
	}
	return nil
}

// failInTheSecondWave approves the steps of the first cluster and the wave, and aborts the release in the second cluster.
func (f *fleetRun) failInTheSecondWave(ctx context.Context) error {
	for n := range int32(2) {
		if _, err := f.atStep(ctx, f.ground.eu1, n+1); err != nil {
			return err
		}
		if err := f.patchStatus(ctx, f.ground.eu1, api.RolloutResource(), map[string]any{"canaryStatus": map[string]any{"currentStepState": api.StepReady}}); err != nil {
			return err
		}
	}
	if err := f.decide(ctx, api.FleetCommandApprove); err != nil {
		return err
	}
	r, err := f.atStep(ctx, f.ground.eu2, 1)
	if err != nil {
		return err
	}
	return f.patchStatus(ctx, f.ground.eu2, api.RolloutResource(), map[string]any{"command": api.Command{Action: api.CommandAbort, Epoch: r.Status.Sluice.Epoch, Actor: "admin"}})
}

// atStep waits for the pause of a step in a cluster.
func (f *fleetRun) atStep(ctx context.Context, in *plane, step int32) (*api.Rollout, error) {
	var r *api.Rollout
	err := f.histories[in.name].await(ctx, fmt.Sprintf("the pause of step %d in %s", step, in.name), func(live objects) bool {
		r = live.rollout()
		return world.PausedAt(step)(r)
	})
	return r, err
}

// supersede releases a third version while the first cluster is at its hold. Then it approves that one.
func (f *fleetRun) supersede(ctx context.Context) error {
	atHold := func(r *api.FleetRollout) bool {
		return r.Status.Phase == api.FleetPhaseWaiting && r.Status.Reason == "Approval" && r.Status.Release.Version == r.Spec.Release.Version
	}
	old, err := f.awaitHub(ctx, "the hold", atHold)
	if err != nil {
		return err
	}
	newer := []byte(`{"spec":{"release":{"version":"v3","images":{"c":"app:3"}}}}`)
	if _, err := f.ground.eu1.objects.Resource(api.FleetRolloutResource()).Namespace(f.namespace).Patch(ctx, app, types.MergePatchType, newer, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("release the third version: %w", err)
	}
	// The order of the way back and of the next delivery would show in the transitions of the cluster.
	if _, err := f.awaitHub(ctx, "the wait for the newer version", func(r *api.FleetRollout) bool {
		return r.Status.Epoch > old.Status.Epoch && r.Status.Phase == api.FleetPhaseWaiting && r.Status.Reason == "Delivery"
	}); err != nil {
		return err
	}
	if err := f.histories["eu1"].await(ctx, "the way back in eu1", func(live objects) bool {
		return live.atRest(firstImage) && live.rollout().Status.Sluice.GetState() == string(rollout.StateAborted)
	}); err != nil {
		return err
	}
	if err := f.deliverVersion(ctx, 3); err != nil {
		return err
	}
	r, err := f.awaitHub(ctx, "the hold of the newer version", func(r *api.FleetRollout) bool { return atHold(r) && r.Status.Epoch > old.Status.Epoch })
	if err != nil {
		return err
	}
	return f.command(ctx, r, api.FleetCommand{Action: api.FleetCommandApprove})
}

// fleetEnd is the end of a story: the phase of the FleetRollout, the phases of its clusters, and the version that the pods of each run.
type fleetEnd struct {
	phase    api.FleetPhase
	clusters map[string]api.FleetTargetPhase
	versions map[string]string
}

func (s fleetStory) end() fleetEnd {
	both := func(version string) map[string]string { return map[string]string{"eu1": version, "eu2": version} }
	all := func(phase api.FleetTargetPhase) map[string]api.FleetTargetPhase {
		return map[string]api.FleetTargetPhase{"eu1": phase, "eu2": phase}
	}
	switch s {
	case failed:
		return fleetEnd{api.FleetPhaseWithdrawn, all(api.FleetTargetWithdrawn), both("v1")}
	case superseded:
		return fleetEnd{api.FleetPhaseSucceeded, all(api.FleetTargetCompleted), both("v3")}
	}
	return fleetEnd{api.FleetPhaseSucceeded, all(api.FleetTargetCompleted), both("v2")}
}

// settled waits for the end of the story, when no part of a release is left.
func (f *fleetRun) settled(ctx context.Context) error {
	end := f.story.end()
	counts := map[api.FleetTargetPhase]int32{}
	for _, phase := range end.clusters {
		counts[phase]++
	}
	if _, err := f.awaitHub(ctx, string(end.phase), func(r *api.FleetRollout) bool {
		for phase, n := range counts {
			if r.Status.Counts[phase] != n {
				return false
			}
		}
		return r.Status.Phase == end.phase
	}); err != nil {
		return err
	}
	if err := f.withdrawnIsGone(ctx, end); err != nil {
		return err
	}
	for name, h := range f.histories {
		if err := h.await(ctx, "rest in "+name, func(live objects) bool {
			return live.atRest(imageOfVersion(end.versions[name])) && live.serves(end.versions[name])
		}); err != nil {
			return err
		}
	}
	return nil
}

// withdrawnIsGone checks that no pod of the second cluster runs a version that the hub calls withdrawn. The recorded changes
// of two clusters have no order, so this asks the API server after the hub has said so.
func (f *fleetRun) withdrawnIsGone(ctx context.Context, end fleetEnd) error {
	if end.phase != api.FleetPhaseWithdrawn {
		return nil
	}
	pods, err := f.ground.eu2.kubernetes.CoreV1().Pods(f.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if image := pod.Spec.Containers[0].Image; image != imageOfVersion(end.versions["eu2"]) {
			f.breach("NothingWithdrawnRuns: pod %s of eu2 runs %s, which the hub calls withdrawn", pod.Name, image)
		}
	}
	return nil
}

// adopted reports whether a version is the last one that all pods have run.
func (o objects) adopted(version string) bool {
	f := o.rollout().Status.Fleet
	return f != nil && len(f.Served) > 0 && f.Served[0].Version == version
}

// serves reports whether the same holds, and the Rollout waits for nothing but its fleet.
func (o objects) serves(version string) bool {
	r := o.rollout()
	if c := r.Status.CanaryStatus; c != nil && (c.CanaryReadyReplicas > c.CanaryReplicas || heldByFleet(r) && c.CanaryReplicas > 0) {
		return false // the executor has still to see that they are gone
	}
	return o.adopted(version) && (world.Healthy(r) && waitsNoMore(r) || heldByFleet(r))
}

// heldByFleet reports whether the Rollout stands still until a person or its fleet says more.
func heldByFleet(r *api.Rollout) bool {
	return r.Status.Sluice.GetState() == string(rollout.StateAborted) || strings.Contains(r.Status.Message, "the fleet has withdrawn") || strings.Contains(r.Status.Message, "waiting for a permit")
}

// atRest reports whether all pods run an image, and none is to come or to go.
func (o objects) atRest(image string) bool {
	n := 0
	for key, u := range o {
		switch {
		case u.GetDeletionTimestamp() != nil:
			return false
		case !strings.HasPrefix(key, "pods/"):
		case imageOf(u) != image || !ready(u):
			return false
		default:
			n++
		}
	}
	return n == size && rolledOut(o["deployments/"+app])
}

// rolledOut reports whether the controller of a Deployment has nothing to do.
func rolledOut(d *unstructured.Unstructured) bool {
	number := func(fields ...string) int64 { n, _, _ := unstructured.NestedInt64(d.Object, fields...); return n }
	return number("status", "observedGeneration") == d.GetGeneration() && number("status", "replicas") == size && number("status", "availableReplicas") == size
}

// fleetRollout returns the FleetRollout of the run, an empty one if it does not exist.
func (o objects) fleetRollout() *api.FleetRollout {
	r := &api.FleetRollout{}
	if u := o["fleetrollouts/"+app]; u != nil {
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, r) // the API server has validated it
	}
	return r
}

// fleetTargets returns the FleetTargets of the run, by cluster.
func (o objects) fleetTargets() map[string]*api.FleetTarget {
	found := map[string]*api.FleetTarget{}
	for key, u := range o {
		if strings.HasPrefix(key, "fleettargets/") {
			t := &api.FleetTarget{}
			_ = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, t)
			found[clusterOf(t.Spec.Cluster)] = t
		}
	}
	return found
}
