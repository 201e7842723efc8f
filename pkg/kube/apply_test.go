package kube_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
)

func TestNoWriteLandsOnAnObjectThatHasChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled()
	w.act(rollout.CreateCanary{Name: "web-canary", Epoch: 1})
	w.act(rollout.CreateCanaryService{Name: "web-canary", Stable: "web", Hash: "a", Epoch: 1})
	w.kubectl("", "wait", "deployment/web-canary", "--for=condition=Available", "--timeout=600s")
	s := w.observe("web")
	route := s.Seen.Routes[0]
	actions := []rollout.Action{
		rollout.AddFinalizer{}, rollout.AdoptWorkload{}, rollout.HoldWorkload{}, rollout.ResumeWorkload{}, rollout.DisownWorkload{},
		rollout.ScaleCanary{Name: "web-canary", Replicas: 3}, rollout.DeleteCanary{Name: "web-canary"},
		rollout.PinService{Name: "web", Hash: "x"}, rollout.UnpinService{Name: "web"},
		rollout.PointCanaryService{Name: "web-canary", Hash: "y"}, rollout.DeleteCanaryService{Name: "web-canary"},
		rollout.ApplyRoute{Object: route.Object, Step: 1, Digest: route.Steps[1].Digest},
	}
	for _, what := range []string{"rollout/web", "deployment/web", "deployment/web-canary", "service/web", "service/web-canary", "virtualservice/web"} {
		w.kubectl("", "annotate", what, "touched=yes")
	}
	check := func(when string, actions []rollout.Action) {
		for _, a := range actions {
			if err := w.client.ApplyAction(t.Context(), s, a); !apiclient.IsConflict(err) && !apiclient.IsGone(err) {
				t.Errorf("%s after its object was %s: %v", a, when, err)
			}
		}
		status := *s.Seen.Status.DeepCopy()
		status.Message = "another"
		if err := w.client.CommitStatus(t.Context(), s, status); !apiclient.IsConflict(err) && !apiclient.IsGone(err) {
			t.Errorf("a commit after the Rollout was %s: %v", when, err)
		}
	}
	check("changed", actions)

	w.kubectl("", "delete", "rollout/web", "deployment/web", "service/web", "virtualservice/web")
	w.settled()
	check("made anew", slices.DeleteFunc(actions, func(a rollout.Action) bool {
		return strings.HasPrefix(a.String(), "delete") // the garbage collector has deleted the copies
	}))
}

func TestWhatIsGoneAlreadyIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled()
	w.act(rollout.CreateCanary{Name: "web-canary", Replicas: 1, Epoch: 3, Revision: "r3"})
	w.act(rollout.CreateCanaryService{Name: "web-canary", Stable: "web", Hash: "a", Epoch: 3})
	s := w.observe("web")
	if c := s.Seen.Canary; c == nil || !c.Ours || c.Epoch != 3 || c.Revision != "r3" {
		t.Errorf("the canary is seen as %+v", c)
	}
	if svc := s.Seen.Backends[0].CanaryService; svc == nil || !svc.Ours || svc.Epoch != 3 || svc.Hash != "a" {
		t.Errorf("the canary Service is seen as %+v", svc)
	}
	w.kubectl("", "delete", "deployment/web-canary", "service/web-canary")
	for _, a := range []rollout.Action{rollout.DeleteCanary{Name: "web-canary"}, rollout.DeleteCanaryService{Name: "web-canary"}} {
		if err := w.client.ApplyAction(t.Context(), s, a); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
	if s.Seen.Canary != nil || s.Seen.Backends[0].CanaryService != nil {
		t.Errorf("the snapshot still has %+v and %+v", s.Seen.Canary, s.Seen.Backends[0].CanaryService)
	}
}

// With deletion in the background the canary is gone at once. In the foreground it stays until its last pod is gone.
func TestACanaryGoesWithItsPods(t *testing.T) {
	t.Parallel()
	for name, foreground := range map[string]bool{"waited for": true, "not waited for": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.settled()
			w.act(rollout.CreateCanary{Name: "web-canary", Replicas: 1, Epoch: 1, Revision: "r"})
			w.kubectl("", "wait", "deployment/web-canary", "--for=condition=Available", "--timeout=600s")
			// The test's finalizer keeps the last pod, as a long grace period would.
			pod := w.kubectl("", "get", "pods", "-l", "sluice.dev/rollout-uid", "-o", "name")
			w.kubectl("", "patch", pod, "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/wait"]}}`)
			t.Cleanup(func() {
				_, _ = plane.Kubectl(context.Background(), "-n", w.namespace, "patch", pod, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
			})
			s := w.act(rollout.DeleteCanary{Name: "web-canary", Foreground: foreground})
			if c := s.Seen.Canary; foreground != (c != nil && c.Deleting) {
				t.Errorf("after the deletion the canary is seen as %+v", c)
			}
			if !foreground {
				w.eventually("the canary is gone", func() bool { return w.observe("web").Seen.Canary == nil })
				return
			}
			if c := w.observe("web").Seen.Canary; c == nil || !c.Deleting {
				t.Errorf("while its pods are there the canary is seen as %+v", c)
			}
			w.kubectl("", "patch", pod, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
			w.eventually("the canary is gone", func() bool { return w.observe("web").Seen.Canary == nil })
		})
	}
}

func TestAnObjectOfOthersWithOurNameIsSeenAndNotTouched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled()
	admin, err := kubernetes.NewForConfig(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	web, err := admin.AppsV1().Deployments(w.namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	name := metav1.ObjectMeta{Name: "web-canary"}
	s := w.observe("web")
	s.Later(-time.Minute) // the snapshot will soon be too old for a create
	if _, err := admin.AppsV1().Deployments(w.namespace).Create(t.Context(), &appsv1.Deployment{ObjectMeta: name, Spec: web.Spec}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	theirs := &corev1.Service{ObjectMeta: name, Spec: corev1.ServiceSpec{Selector: web.Spec.Selector.MatchLabels, Ports: []corev1.ServicePort{{Port: 80}}}}
	if _, err := admin.CoreV1().Services(w.namespace).Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, a := range []rollout.Action{
		rollout.CreateCanary{Name: "web-canary", Replicas: 1, Epoch: 1}, rollout.CreateCanaryService{Name: "web-canary", Stable: "web", Hash: "a", Epoch: 1},
	} {
		if err := w.client.ApplyAction(t.Context(), s, a); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
	if s.Seen.Canary == nil || s.Seen.Canary.Ours || s.Seen.Backends[0].CanaryService == nil || s.Seen.Backends[0].CanaryService.Ours {
		t.Errorf("theirs is seen as %+v and %+v", s.Seen.Canary, s.Seen.Backends[0].CanaryService)
	}
}

func TestOnlyARolloutThatGovernsTheWorkloadHasAdoptedIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled()
	other := strings.Replace(canaryRollout, "metadata: {name: web}", "metadata: {name: other}", 1)
	w.kubectl("", "annotate", "deployment/web", "sluice.dev/rollout=other")
	adoptedBy := func() string { return w.observe("web").Seen.Workload.AdoptedBy }
	if got := adoptedBy(); got != "" {
		t.Errorf("a Rollout that does not exist has adopted it: %q", got)
	}
	w.apply(strings.Replace(other, "kind: Deployment, name: web", "kind: Deployment, name: elsewhere", 1))
	if got := adoptedBy(); got != "" {
		t.Errorf("a Rollout of another workload has adopted it: %q", got)
	}
	w.apply(other)
	if got := adoptedBy(); got != "other" {
		t.Errorf("it is adopted by %q", got)
	}
	finalizers := func(list string) {
		w.kubectl("", "patch", "rollout/other", "--type=merge", "-p", `{"metadata":{"finalizers":`+list+`}}`)
	}
	finalizers(`["rollouts.kruise.io/rollout","example.com/wait"]`)
	w.kubectl("", "delete", "rollout/other", "--wait=false")
	if got := adoptedBy(); got != "other" {
		t.Errorf("while a Rollout that is being deleted may have a release to end, the workload is adopted by %q", got)
	}
	finalizers(`["example.com/wait"]`)
	if got := adoptedBy(); got != "" {
		t.Errorf("a Rollout that has ended its release has adopted it: %q", got)
	}
	finalizers("null")
}

func TestAWorkloadThatAnotherRolloutAdoptsMeanwhileIsSeenAsItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled()
	w.apply(strings.Replace(canaryRollout, "metadata: {name: web}", "metadata: {name: other}", 1))
	s := w.observe("web")
	w.kubectl("", "annotate", "deployment/web", "sluice.dev/rollout=other")
	conflict := w.client.ApplyAction(t.Context(), s, rollout.AdoptWorkload{Workload: s.Seen.Spec.Workload})
	if !apiclient.IsConflict(conflict) {
		t.Fatalf("the adoption met %v", conflict)
	}
	if err := w.client.RefreshConflicted(t.Context(), s, conflict); err != nil {
		t.Fatal(err)
	}
	if got := s.Seen.Workload.AdoptedBy; got != "other" {
		t.Errorf("it is adopted by %q", got)
	}
}

// override makes scripts of users and their capabilities win over the built-in ones.
func (w *world) override(data string) {
	w.t.Helper()
	w.apply(`
apiVersion: v1
kind: ConfigMap
metadata: {name: kruise-rollout-configuration, annotations: {sluice.dev/override: "true"}}
data:` + data)
}

func TestScriptsOfTheConfigMapCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled()
	if diff := cmp.Diff("built-in", w.observe("web").Scripts[0].Source); diff != "" {
		t.Errorf("the source differs (-want +got):\n%s", diff)
	}
	w.override(`
  lua.traffic.routing.VirtualService.networking.istio.io: 'error("not today")'`)
	s := w.observe("web")
	if diff := cmp.Diff("ConfigMap "+w.namespace+"/kruise-rollout-configuration", s.Scripts[0].Source); diff != "" {
		t.Errorf("the source differs (-want +got):\n%s", diff)
	}
	for step := range int32(2) {
		refused := s.Seen.Routes[0].Steps[step+1].Refused
		if !strings.Contains(refused, "not today") || !strings.Contains(refused, "line 1") {
			t.Errorf("step %d is refused as %q", step+1, refused)
		}
	}
}

// The executor must not drop a field of a step that an older definition of the kind does not know: half a match has
// another audience.
func TestAStepThatTheDefinitionOfTheKindDoesNotKnowChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled()
	w.adopted()
	w.override(`
  lua.traffic.routing.VirtualService.networking.istio.io: |
    local routes = obj.data.spec.http[1].route
    routes[1].weight, routes[2] = 80, { destination = { host = obj.canaryService, shard = "b" }, weight = 20 }
    return obj.data`)
	s := w.observe("web")
	before := w.kubectl("", "get", "virtualservice/web", "-o", "jsonpath={.metadata.resourceVersion}")
	route := s.Seen.Routes[0]
	problem, ok := apiclient.ProblemOf(w.client.ApplyAction(t.Context(), s, rollout.ApplyRoute{Object: route.Object, Step: 1, Digest: route.Steps[1].Digest}))
	if !ok || problem.Reason != rollout.ReasonRouteRejected || !strings.Contains(problem.Message, `unknown field "spec.http[0].route[1].destination.shard"`) {
		t.Errorf("the problem is %+v", problem)
	}
	if after := w.kubectl("", "get", "virtualservice/web", "-o", "jsonpath={.metadata.resourceVersion}"); after != before {
		t.Error("the object was written")
	}
}

// A script gets the current state of the cluster.
func TestAScriptIsToldOfPortsServicesAndRevisions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled()
	w.adopted()
	w.override(`
  capabilities.traffic.routing.VirtualService.networking.istio.io: '{weights: true, tells: [ports, services, targets]}'
  lua.traffic.routing.VirtualService.networking.istio.io: |
    local of = obj.targets
    error(obj.ports[1].port .. " " .. obj.services[1].stable .. " " .. of[1].role .. " " .. of[1].revision .. " " .. of[2].role .. " " .. of[2].weight, 0)`)
	s := w.observe("web")
	refused := s.Seen.Routes[0].Steps[1].Refused
	if want := "80 web stable " + s.Seen.Status.CanaryStatus.StableRevision + " canary 20"; !strings.HasSuffix(refused, want) {
		t.Errorf("it was told, in the end: %s; want %s", refused, want)
	}
}

func TestTheSameEventIsCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(canaryRollout)
	s := w.observe("web")
	for range 3 {
		w.client.RecordEvent(s, true, "Held", "Something must be done.")
	}
	w.client.RecordEvent(s, false, "Approved", strings.Repeat("long ", 1000))
	w.client.FlushEvents()
	got := w.kubectl("", "get", "events", "--field-selector=involvedObject.name=web", "--sort-by=.reason",
		"-o", `jsonpath={range .items[*]}{.type} {.reason} {.series.count};{end}`)
	if diff := cmp.Diff("Normal Approved ;Warning Held 3;", got); diff != "" {
		t.Errorf("the events differ (-want +got):\n%s", diff)
	}
}
