package kube_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
)

// other is a kind of workload other than Deployment, with two pods, called web.
type other struct {
	resource, kind, spec string
	// annotations and held are the additions of the hold policy to a change, under metadata.annotations and under spec.
	annotations, held string
	// left is the update strategy while no release is under way.
	left string
}

func others() map[string]other {
	return map[string]other{
		"a StatefulSet": {
			"statefulset", "StatefulSet", "replicas: 2", `"sluice.dev/original.partition":"0"`, `"updateStrategy":{"rollingUpdate":{"partition":32767}}`,
			`{"rollingUpdate":{"partition":0},"type":"RollingUpdate"}`,
		},
		"a DaemonSet": { // one pod on each of the two nodes
			"daemonset", "DaemonSet", "", `"sluice.dev/original.type":"RollingUpdate"`, `"updateStrategy":{"type":"OnDelete"}`,
			`{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1},"type":"RollingUpdate"}`,
		},
	}
}

func (o other) manifest() string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: %s
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1"}]}
  %s`, o.kind, o.spec)
}

// rollout returns the usual Rollout in the only style of the kind. In its last step all pods get all the traffic.
func (o other) rollout() string {
	return strings.NewReplacer("kind: Deployment", "kind: "+o.kind, "      enableExtraWorkloadForCanary: true\n", "", "replicas: 100%, traffic: 50%", "replicas: 100%, traffic: 100%").Replace(canaryRollout)
}

// image is the patch of a user who changes the image, after the hold policy has changed it.
func (o other) image(tag string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{"rollouts.kruise.io/in-progressing":"{\"rolloutName\":\"web\"}",%s}},
		"spec":{%s,"template":{"spec":{"containers":[{"name":"web","image":"web:%s"}]}}}}`, o.annotations, o.held, tag)
}

// rests creates the objects and waits until the Rollout is idle.
func (w *world) rests(o other) {
	w.t.Helper()
	w.apply(o.manifest(), service, virtualService, o.rollout())
	w.kubectl("", "rollout", "status", o.resource+"/web", "--timeout=600s")
	w.adopted()
}

// images counts the pods that are not being deleted, by image.
func (w *world) images() map[string]int {
	w.t.Helper()
	found := map[string]int{}
	for pod := range strings.FieldsSeq(w.get("pods", `{range .items[*]}{.spec.containers[0].image}{.metadata.deletionTimestamp}{" "}{end}`)) {
		if pod == "web:1" || pod == "web:2" {
			found[pod]++
		}
	}
	return found
}

// eachOther plays a test for each kind of workload other than Deployment, in its own world, from an adopted workload at rest.
func eachOther(t *testing.T, play func(t *testing.T, w *world, o other)) {
	t.Helper()
	for name, o := range others() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.rests(o)
			play(t, w, o)
		})
	}
}

func TestAnotherKindFromIdleToIdle(t *testing.T) {
	t.Parallel()
	eachOther(t, func(t *testing.T, w *world, o other) {
		before := w.get("virtualservice/web", "{.spec}")
		w.kubectl("", "patch", o.resource+"/web", "--type=merge", "-p", o.image("2"))
		s := w.drive("web", rollout.StatePaused)
		if diff := cmp.Diff(map[string]int{"web:1": 1, "web:2": 1}, w.images()); diff != "" {
			t.Errorf("the pods of step 1 differ (-want +got):\n%s", diff)
		}
		weights := w.get("virtualservice/web", "{range .spec.http[*].route[*]}{.destination.host}={.weight} {end}")
		if diff := cmp.Diff("web=80 web-canary=20", weights); diff != "" {
			t.Errorf("the route of step 1 differs (-want +got):\n%s", diff)
		}
		w.selects("service/web", "web:1")
		w.selects("service/web-canary", "web:2")
		labels := w.kubectl("", "get", "pods", "-l", "rollouts.kruise.io/rollout-batch-id=1", "-o", "jsonpath={.items[*].spec.containers[0].image}")
		if diff := cmp.Diff("web:2", labels); diff != "" {
			t.Errorf("the labelled pods differ (-want +got):\n%s", diff)
		}
		if s.Seen.Backends[0].CanaryEndpoints != 1 {
			t.Errorf("%d endpoints are counted", s.Seen.Backends[0].CanaryEndpoints)
		}
		w.record(s, 1)
		recorded := w.get("rollouthistory/web-1", "{.spec.workload.data.updateStrategy} {.spec.workload.data.template.spec.containers[0].image}")
		if strings.Contains(recorded, "OnDelete") || strings.Contains(recorded, "32767") || !strings.HasSuffix(recorded, "web:2") {
			t.Errorf("what is on record of the workload is %s", recorded)
		}

		w.kubectl("", "patch", "rollout", "web", "--subresource=status", "--type=merge", "-p", `{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`)
		w.drive("web", rollout.StateFinalising)
		w.drive("web", rollout.StateIdle)
		if diff := cmp.Diff(map[string]int{"web:2": 2}, w.images()); diff != "" {
			t.Errorf("the pods at the end differ (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, w.get("virtualservice/web", "{.spec}")); diff != "" {
			t.Errorf("the VirtualService differs after the release (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(o.left, w.get(o.resource+"/web", "{.spec.updateStrategy}")); diff != "" {
			t.Errorf("the update strategy differs (-want +got):\n%s", diff)
		}
		if marks := w.get(o.resource+"/web", "{.metadata.annotations}"); strings.Contains(marks, "in-progressing") || strings.Contains(marks, "original") {
			t.Errorf("marks of the hold are left: %s", marks)
		}
		if selector := w.get("service/web", "{.spec.selector}"); selector != `{"app":"web"}` {
			t.Errorf("the stable Service selects %s", selector)
		}
		if left := w.kubectl("", "get", "services", "-o", "name"); left != "service/web" {
			t.Errorf("what is left is %s", left)
		}
	})
}

// selects checks which pods a Service selects.
func (w *world) selects(service, image string) {
	w.t.Helper()
	hash := w.get(service, "{.spec.selector.controller-revision-hash}")
	got := w.kubectl("", "get", "pods", "-l", "app=web,controller-revision-hash="+hash, "-o", "jsonpath={.items[*].spec.containers[0].image}")
	if diff := cmp.Diff(image, got); diff != "" {
		w.t.Errorf("what %s selects differs (-want +got):\n%s", service, diff)
	}
}

func TestAnotherKindIsTakenBack(t *testing.T) {
	t.Parallel()
	eachOther(t, func(t *testing.T, w *world, o other) {
		w.kubectl("", "patch", o.resource+"/web", "--type=merge", "-p", o.image("2"))
		w.drive("web", rollout.StatePaused)
		w.kubectl("", "patch", o.resource+"/web", "--type=merge", "-p", `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:1"}]}}}}`)
		w.drive("web", rollout.StateFinalising)
		w.drive("web", rollout.StateIdle)
		if diff := cmp.Diff(map[string]int{"web:1": 2}, w.images()); diff != "" {
			t.Errorf("the pods differ (-want +got):\n%s", diff)
		}
	})
}

func TestAnotherKindAtRestCostsNoRequest(t *testing.T) {
	t.Parallel()
	eachOther(t, func(t *testing.T, w *world, o other) {
		k := w.watching()
		w.sees(k, "the workload", func(seen rollout.Seen) bool {
			return seen.Workload != nil && seen.Workload.Adopted && seen.Workload.Observed && len(seen.Workload.Revisions) == 1
		})
		live, err := k.ObserveLive(t.Context(), w.key("web"))
		if err != nil {
			t.Fatal(err)
		}
		_, before := k.ReadCounts()
		for range 3 {
			s, err := k.Observe(t.Context(), w.key("web"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(live.Seen.Workload, s.Seen.Workload); diff != "" {
				t.Errorf("the workload is remembered as another (-want +got):\n%s", diff)
			}
		}
		if _, after := k.ReadCounts(); after != before {
			t.Errorf("%d reads went to the API server", after-before)
		}
		w.kubectl("", "patch", o.resource+"/web", "--type=merge", "-p", o.image("2"))
		w.eventually("the new revision is seen", func() bool {
			s, err := k.Observe(t.Context(), w.key("web"))
			return err == nil && s.Seen.Workload.Held && s.Seen.Workload.Observed && len(s.Seen.Workload.Revisions) == 2
		})
		if s, ok := k.ObserveCached(w.key("web")); ok {
			t.Errorf("the client shows pods although it does not watch them: %+v", s.Seen.Workload.Revisions)
		}
	})
}

func TestWhatIsDoneAboutARestedWorkloadBeginsWithALook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rests(others()["a StatefulSet"])
	_ = w.observe("web")
	s := w.observe("web") // from the idle cache
	d := rollout.Decision{Status: *s.Seen.Status.DeepCopy(), Actions: []rollout.Action{rollout.DisownWorkload{}}}
	_, before := w.client.ReadCounts()
	if moved, err := w.client.ConfirmDecision(t.Context(), s, d); moved || err != nil {
		t.Errorf("what rests has moved: %t, %v", moved, err)
	}
	if _, after := w.client.ReadCounts(); after-before < 2 {
		t.Errorf("%d reads went to the API server", after-before)
	}
	for _, a := range []rollout.Action{rollout.DisownWorkload{}, rollout.AdoptWorkload{}} {
		s := w.observe("web")
		if err := w.client.ApplyAction(t.Context(), s, a); err != nil {
			t.Error(err)
		}
		if sets := s.Seen.Workload.Revisions; len(sets) != 1 || sets[0].Ready != 2 {
			t.Errorf("after %s the revisions are %+v", a, sets)
		}
		_ = w.observe("web")
	}
}

func TestPodsAreDeletedOnlyAsTheyWereSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rests(others()["a DaemonSet"])
	s := w.liveLook()
	hash := s.Seen.Workload.Revisions[0].Hash
	w.kubectl("", "annotate", "pods", "--all", "seen=late")
	if err := w.client.ApplyAction(t.Context(), s, rollout.ReplacePods{Hash: hash, Pods: 1}); !apiclient.IsConflict(err) {
		t.Errorf("the error about pods that have changed is %v", err)
	}
	if got := w.images()["web:1"]; got != 2 {
		t.Errorf("%d pods are left", got)
	}
	s = w.liveLook()
	if err := w.client.ApplyAction(t.Context(), s, rollout.ReplacePods{Hash: "none", Pods: 1}); !apiclient.IsConflict(err) {
		t.Errorf("the error about pods that are not there is %v", err)
	}
	before := w.get("pods", `{range .items[*]}{.metadata.uid}{"\n"}{end}`)
	if err := w.client.ApplyAction(t.Context(), s, rollout.ReplacePods{Hash: hash, Pods: 1}); err != nil {
		t.Fatal(err)
	}
	if sets := s.Seen.Workload.Revisions; sets[0].Replicas != 1 {
		t.Errorf("afterwards the revisions are %+v", sets)
	}
	w.kubectl("", "rollout", "status", "daemonset/web", "--timeout=600s")
	kept := 0
	for pod := range strings.FieldsSeq(w.get("pods", `{range .items[*]}{.metadata.uid}{"\n"}{end}`)) {
		if strings.Contains(before, pod) {
			kept++
		}
	}
	if kept != 1 {
		t.Errorf("%d of 2 pods are still there", kept)
	}
}

func (w *world) liveLook() *kube.Snapshot {
	w.t.Helper()
	s, err := w.client.ObserveLive(w.t.Context(), w.key("web"))
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func TestAnotherKindIsLetGo(t *testing.T) {
	t.Parallel()
	eachOther(t, func(t *testing.T, w *world, o other) {
		w.removedByForce()
		n, err := w.orphansLetGo()
		if n != 1 || err != nil {
			t.Errorf("%d workloads were let go of, error %v", n, err)
		}
		marks := w.get(o.resource+"/web", "{.metadata.labels}{.metadata.annotations}")
		if strings.Contains(marks, "sluice.dev") || strings.Contains(marks, "rollouts.kruise.io") {
			t.Errorf("the workload is left with %s", marks)
		}
	})
}

func TestAKindThatCannotBeReleasedIsAProblemThatSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servers.games.example.com}
spec:
  group: games.example.com
  scope: Namespaced
  names: {kind: Server, plural: servers, singular: server}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`)
	w.kubectl("", "wait", "crd/servers.games.example.com", "--for=condition=Established", "--timeout=600s")
	const server = `
apiVersion: games.example.com/v1
kind: Server
metadata: {name: web}
spec: {replicas: 0, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "web:1"}]}}}`
	of := func(apiVersion, kind string) string {
		return strings.NewReplacer("apiVersion: apps/v1, kind: StatefulSet", "apiVersion: "+apiVersion+", kind: "+kind).Replace(others()["a StatefulSet"].rollout())
	}
	tells := func(what string, reason api.Reason, says ...string) {
		t.Helper()
		w.eventually(what+" is told", func() bool {
			for _, p := range w.observe("web").Seen.Problems {
				told := p.Reason == reason
				for _, part := range says {
					told = told && strings.Contains(p.Message, part)
				}
				if told {
					return true
				}
			}
			return false
		})
	}
	w.apply(of("apps.kruise.io/v1alpha1", "CloneSet"), service, virtualService)
	tells("a kind of OpenKruise that is not served", rollout.ReasonWorkloadMissing, "does not serve CloneSet of apps.kruise.io/v1alpha1", "install OpenKruise")
	w.apply(of("games.example.com/v2", "Server"))
	tells("a version that is not served", rollout.ReasonWorkloadMissing, "does not serve Server of games.example.com/v2", "kubectl get crd")
	w.apply(of("games.example.com/v1", "Server"), server)
	tells("a kind without permission", rollout.ReasonForbidden, "may not get servers.games.example.com", `sluice.dev/aggregate-to-executor: "true"`, `verbs: ["patch"]`)
	w.apply(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: games, labels: {sluice.dev/aggregate-to-executor: "true"}}
rules: [{apiGroups: [games.example.com], resources: [servers], verbs: [get, list, watch, patch]}]`)
	t.Cleanup(func() {
		if _, err := plane.Kubectl(context.WithoutCancel(t.Context()), "delete", "clusterrole", "games"); err != nil {
			t.Error(err)
		}
	})
	tells("a kind that is not known", rollout.ReasonUnsupported, "kubectl label servers.games.example.com web -n "+w.namespace+" rollouts.kruise.io/workload-type=statefulset")
	if s := w.observe("web"); s.Seen.Workload != nil {
		t.Errorf("it is seen as %+v", s.Seen.Workload)
	}
	w.kubectl("", "patch", "server", "web", "--type=merge", "-p", `{"spec":{"template":null}}`)
	tells("a kind without pods", rollout.ReasonUnsupported, "how to release Server web of games.example.com/v1. Name another workload in spec.workloadRef")
	w.apply(server)
	w.kubectl("", "label", "server", "web", "rollouts.kruise.io/workload-type=statefulset")
	w.drive("web", rollout.StateIdle)
	w.adopted()
	k := w.watching()
	if _, err := k.Observe(t.Context(), w.key("web")); err != nil { // the observation makes the client know the kind
		t.Fatal(err)
	}
	w.removedByForce()
	if n, err := k.CleanUpOrphanedWorkloads(t.Context(), w.key("web")); n != 1 || err != nil {
		t.Errorf("%d workloads were let go of, error %v", n, err)
	}
	if got := w.get("server/web", "{.metadata.labels}"); !strings.Contains(got, "statefulset") {
		t.Errorf("its owner's label is gone: %s", got)
	}
}
