package fleet

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// story is a release over the shared fleet, in a namespace of its own. Its end is judged by the audit logs of all clusters.
type story struct {
	*fleet
	t         *testing.T
	namespace string
	// app has the manifests of the workload and its Rollout, and steps those of the Rollout.
	app, steps string
	// restored and skews are what the judge must know.
	restored map[string]bool
	skews    map[string]time.Duration
	// watchHub makes a hub that takes the place of the first one a witness too.
	watchHub func(*world.World)
}

// timedSteps are steps with a pause for a person, and one that ends by itself.
const timedSteps = `[{replicas: 1, pause: {}}, {replicas: "50%", pause: {duration: 1}}]`

// steadySteps are steps whose pauses end by approvals only, for clusters whose clocks a story changes.
const steadySteps = `[{replicas: 1, pause: {}}, {replicas: "50%", pause: {}}]`

// newStory returns a story whose namespace exists in all clusters. Stories that stop the hub, or cut off clusters, run one after the other. All others run in
// parallel after those.
func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{fleet: sharedFleet(t), t: t, namespace: controlplane.NamespaceFor(t), app: app, steps: timedSteps, restored: map[string]bool{}, skews: map[string]time.Duration{}}
	collect := s.witness()
	s.hub.Do(t, "create", "namespace", s.namespace)
	for _, m := range s.members {
		m.Do(t, "create", "namespace", s.namespace)
	}
	t.Cleanup(func() {
		s.judge(collect)
		if t.Failed() {
			out, err := s.hub.Kubectl(context.Background(), "-n", s.namespace, "get", "fleetmembers,fleetrollouts,fleettargets", "-o", "yaml")
			t.Logf("the hub has (%v):\n%s", err, out)
		}
		if _, err := s.hub.Kubectl(context.Background(), "-n", s.namespace, "delete", "fleetrollout", "--all", "--wait=false"); err != nil {
			t.Error(err)
		}
	})
	return s
}

// lookAgain is how often the judge looks again for pods whose end the watch has not shown yet.
const lookAgain = 200 * time.Millisecond

// witness begins to record what happens in all clusters. The returned function collects it.
func (s *story) witness() (collect func() (evidence, error)) {
	hubs, members, pods := []func() ([]world.Write, error){s.hub.Journal(s.namespace)}, map[string]func() ([]world.Write, error){}, map[string]func() []podEvent{}
	s.watchHub = func(w *world.World) { hubs = append(hubs, w.Journal(s.namespace)) }
	for name, m := range s.members {
		members[name], pods[name] = m.Journal(s.namespace), watchPods(s.t, m.World, s.namespace)
	}
	return func() (evidence, error) {
		e := evidence{members: map[string][]world.Write{}, pods: map[string][]podEvent{}, restored: s.restored, skews: s.skews}
		for _, journal := range hubs {
			writes, err := journal()
			if err != nil {
				return e, err
			}
			e.hub = append(e.hub, writes...)
		}
		for name := range members {
			var err error
			if e.members[name], err = members[name](); err != nil {
				return e, err
			}
			e.pods[name] = pods[name]()
		}
		return e, nil
	}
}

// judge fails the story for each breach of an invariant, in the hub, in a cluster, and over all of them.
func (s *story) judge(collect func() (evidence, error)) {
	s.t.Helper()
	begun := time.Now()
	for {
		e, err := collect()
		if err != nil {
			s.t.Error(err)
			return
		}
		breaches := breachesOf(e)
		if time.Since(begun) < goneWithin && len(breaches) > 0 && strings.Contains(strings.Join(breaches, " "), "WithdrawnMeansGone") {
			time.Sleep(lookAgain)
			continue
		}
		for _, breach := range breaches {
			s.t.Errorf("namespace %s: %s", s.namespace, breach)
		}
		for cluster, writes := range e.members {
			for _, breach := range append(world.Breaches(writes), world.Overexposed(writes)...) {
				s.t.Errorf("namespace %s of %s: %s", s.namespace, cluster, breach)
			}
		}
		for _, breach := range world.Breaches(e.hub) {
			s.t.Errorf("namespace %s of the hub: %s", s.namespace, breach)
		}
		if len(e.hub) == 0 {
			s.t.Error("the audit log of the hub has nothing of the story")
		}
		return
	}
}

// app is a workload with its Rollout, which the fleet governs.
const app = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: checkout, annotations: {sluice.dev/version: VERSION}}
spec:
  replicas: 4
  selector: {matchLabels: {app: checkout}}
  template:
    metadata: {labels: {app: checkout}}
    spec: {containers: [{name: app, image: "example.com/checkout:VERSION"}]}
---
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: checkout}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: checkout}
  fleet: {namespace: NAMESPACE, name: checkout}
  strategy: {canary: {steps: STEPS}}
`

// pausedInTheCanary brings the release of v2 to step 1 in the first cluster, where a user approves. Version 1 is in all clusters before.
func (s *story) pausedInTheCanary() {
	s.t.Helper()
	s.installed("v1")
	s.release("  release: {version: v2}\n  localPauses: Keep" + twoWaves)
	s.deliver("v2", "eu1", "eu2", "eu3")
	s.member("eu1", world.PausedAt(1))
}

// deliver applies a version in clusters, as a GitOps tool does.
func (s *story) deliver(version string, clusters ...string) {
	s.t.Helper()
	for _, name := range clusters {
		s.members[name].Apply(s.t, s.namespace, s.manifests(version))
	}
}

func (s *story) manifests(version string) string {
	return strings.NewReplacer("VERSION", version, "NAMESPACE", s.namespace, "STEPS", s.steps).Replace(s.app)
}

// installed delivers the first version everywhere, and waits until it serves.
func (s *story) installed(version string) {
	s.t.Helper()
	s.deliver(version, "eu1", "eu2", "eu3")
	for _, name := range []string{"eu1", "eu2", "eu3"} {
		s.member(name, func(r *api.Rollout) bool { return world.Healthy(r) && serves(version)(r) })
		s.members[name].Available(s.t, s.namespace, "checkout")
	}
}

// pods waits until a cluster has so many pods of each version, and no others.
func (s *story) pods(cluster string, want map[string]int) {
	s.t.Helper()
	events, err := controlplane.Watch(world.Patient(s.t), s.members[cluster].Client(s.t, s.namespace, "pod"), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer events.Stop()
	pods := map[string]string{}
	for !maps.Equal(countTags(pods), want) {
		e, open := <-events.ResultChan()
		if !open {
			s.t.Fatalf("%s has the pods %v, want %v", cluster, countTags(pods), want)
		}
		pod, is := e.Object.(*unstructured.Unstructured)
		switch {
		case !is:
		case e.Type == watch.Deleted || pod.GetDeletionTimestamp() != nil:
			delete(pods, pod.GetName())
		default:
			pods[pod.GetName()] = imageTag(pod)
		}
	}
}

// countTags counts pods by their versions.
func countTags(pods map[string]string) map[string]int {
	counts := map[string]int{}
	for _, tag := range pods {
		counts[tag]++
	}
	return counts
}

// release applies the FleetRollout.
func (s *story) release(spec string) {
	s.t.Helper()
	s.hub.Apply(s.t, s.namespace, "apiVersion: sluice.dev/v1alpha1\nkind: FleetRollout\nmetadata: {name: checkout}\nspec:\n"+spec)
}

// await waits until the FleetRollout has reached a state.
func (s *story) await(want string, reached func(api.FleetRolloutStatus) bool) api.FleetRolloutStatus {
	s.t.Helper()
	var status api.FleetRolloutStatus
	s.hub.AwaitObject(s.t, s.namespace, "fleetrollout", "checkout", want, func(u *unstructured.Unstructured) bool {
		if u == nil {
			return false
		}
		var r api.FleetRollout
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &r); err != nil {
			s.t.Fatal(err)
		}
		status = r.Status
		return reached(status)
	})
	return status
}

// phase waits for a phase and a reason of the FleetRollout.
func (s *story) phase(phase api.FleetPhase, reason string) api.FleetRolloutStatus {
	s.t.Helper()
	return s.await(string(phase)+" "+reason, func(status api.FleetRolloutStatus) bool { return status.Phase == phase && status.Reason == reason })
}

// target waits for a phase of one cluster.
func (s *story) target(cluster string, phase api.FleetTargetPhase) api.FleetTarget {
	s.t.Helper()
	var target api.FleetTarget
	s.hub.AwaitObject(s.t, s.namespace, "fleettarget", "checkout."+cluster, string(phase), func(u *unstructured.Unstructured) bool {
		if u == nil {
			return false
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &target); err != nil {
			s.t.Fatal(err)
		}
		return target.Status.Phase == phase
	})
	return target
}

// member waits until the Rollout of a cluster has reached a goal.
func (s *story) member(cluster string, goal world.Goal) *api.Rollout {
	s.t.Helper()
	return s.members[cluster].Await(s.t, s.namespace, "checkout", goal)
}

// command gives the FleetRollout a command about its present release and pause, and waits until the hub has taken it.
func (s *story) command(c api.FleetCommand) {
	s.t.Helper()
	status := s.await("a release", func(status api.FleetRolloutStatus) bool { return status.Epoch > 0 && status.Command == nil })
	c.Actor, c.Epoch, c.PauseSeq = "admin", status.Epoch, status.PauseSeq
	body, err := json.Marshal(map[string]any{"status": map[string]any{"command": c}})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.hub.Patch(s.t, s.namespace, "fleetrollout", "checkout", string(body), "status"); err != nil {
		s.t.Fatal(err)
	}
	s.await("the command to be taken", func(status api.FleetRolloutStatus) bool { return status.Command == nil })
}

// awaitEvent waits for a Kubernetes Event about the FleetRollout. The hub writes them in the background.
func (s *story) awaitEvent(reason string) {
	s.t.Helper()
	ctx := world.Patient(s.t)
	for {
		out, err := s.hub.Kubectl(ctx, "-n", s.namespace, "get", "events", "--field-selector", "involvedObject.kind=FleetRollout,reason="+reason, "-o", "name")
		if err != nil {
			s.t.Fatalf("wait for the Event %s: %v", reason, err)
		}
		if out != "" {
			return
		}
	}
}

// serves is the goal that a version is the last one that all pods of a cluster run.
func serves(version string) world.Goal {
	return func(r *api.Rollout) bool {
		f := r.Status.Fleet
		return f != nil && len(f.Served) > 0 && f.Served[0].Version == version
	}
}

// awaitsPermit is the goal that a cluster holds a version.
func awaitsPermit(version string) world.Goal {
	return func(r *api.Rollout) bool {
		f := r.Status.Fleet
		return f != nil && f.Releasing.Version == version && strings.Contains(r.Status.Message, "waiting for a permit")
	}
}
