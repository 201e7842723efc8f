package kube_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/planner"
	"sluice.dev/sluice/pkg/rollout"
)

// A release in its closing work has released its workload. Its other objects still carry traffic.

// immediate returns the usual Rollout with steps that do not wait.
func immediate(replace ...string) string {
	return strings.NewReplacer(append(replace, "replicas: 1, traffic: 20%", "replicas: 1, traffic: 20%, pause: {duration: 0}",
		"replicas: 100%, traffic: 50%", "replicas: 100%, traffic: 50%, pause: {duration: 0}")...).Replace(canaryRollout)
}

func blueGreen() string {
	return immediate("canary:", "blueGreen:", "      enableExtraWorkloadForCanary: true\n", "")
}

// ends runs a release of the Rollout until it has just released its workload, and an object is still as the release
// made it.
func (w *world) ends(rolloutManifest string, still func(rollout.Seen) bool) {
	w.t.Helper()
	w.apply(deployment, service, virtualService, autoscaler, rolloutManifest)
	w.kubectl("", "wait", "deployment/web", "--for=condition=Available", "--timeout=600s")
	w.adopted()
	w.kubectl("", "patch", "deployment", "web", "--type=strategic", "-p", heldImage("2"))
	w.drive("web", rollout.StateUpgrade)
	w.letsGo(still)
}

// letsGo runs a release until it has just released its workload.
func (w *world) letsGo(still func(rollout.Seen) bool) {
	w.t.Helper()
	last := ""
	w.eventually("the workload is let go at the end of the release", func() bool {
		s := w.observe("web")
		for range 50 {
			if state(s) == rollout.StateFinalising && !s.Seen.Workload.Held {
				if !still(s.Seen) {
					w.t.Fatalf("nothing is left when the workload is let go: %+v", s.Seen)
				}
				return true
			}
			d := planner.Plan(s.Seen, time.Now())
			last = fmt.Sprint(d.Status.Sluice.State, " ", d.Status.Message, " ", d.Actions)
			if err := w.step(s, d); apiclient.IsConflict(err) || len(d.Actions) == 0 {
				return false
			} else if err != nil {
				w.t.Fatal(err, last)
			}
		}
		return false
	})
}

// wantKept cleans up after the deleted Rollout, and wants the objects to stay and an Event that says so.
func (w *world) wantKept(kept, event string) {
	w.t.Helper()
	before := w.get(kept, "{range .items[*]}{.metadata.name}{.spec}{end}")
	for range 2 {
		if n, err := w.orphansLetGo(); n != 0 || err != nil {
			w.t.Errorf("%d workloads were let go of, error %v", n, err)
		}
	}
	if diff := cmp.Diff(before, w.get(kept, "{range .items[*]}{.metadata.name}{.spec}{end}")); diff != "" {
		w.t.Errorf("what still bears traffic differs (-before +after):\n%s", diff)
	}
	note := w.kubectl("", "get", "events", "--field-selector=reason=ReleaseOrphaned", "-o", "jsonpath={range .items[*]}{.involvedObject.kind}/{.involvedObject.name} {.message}{end}")
	if !strings.HasPrefix(note, event) || !strings.Contains(note, "Create Rollout web again") {
		w.t.Errorf("the event is %q, want %q", note, event)
	}
}

// wantMended creates the Rollout again, deletes it properly, and wants both to leave nothing behind.
func (w *world) wantMended(rolloutManifest string) {
	w.t.Helper()
	w.apply(rolloutManifest)
	w.adopted()
	w.kubectl("", "delete", "rollout", "web", "--wait=false")
	w.gone("web")
	w.wantNothingLeft()
}

func (w *world) wantNothingLeft() {
	w.t.Helper()
	got := []string{
		w.kubectl("", "get", "deployments,services", "-o", "name"), w.get("virtualservice/web", "{.spec.http}"), w.get("service/web", "{.spec.selector}"),
		w.get("deployment/web", "{.spec.replicas}"), w.get("horizontalpodautoscaler/web", "{.spec.scaleTargetRef.name}"),
	}
	want := []string{"deployment.apps/web\nservice/web", `[{"route":[{"destination":{"host":"web"}}]}]`, `{"app":"web"}`, "2", "web"}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("what is left differs (-want +got):\n%s", diff)
	}
	marks := w.get("deployment/web", "{.metadata.labels}{.metadata.annotations}{.spec.paused}")
	if strings.Contains(marks, "sluice.dev") || strings.Contains(marks, "rollouts.kruise.io") || strings.HasSuffix(marks, "true") {
		w.t.Errorf("the workload is left with %s", marks)
	}
}

func TestWhatARouteStillLeadsToOutlivesARolloutThatIsRemovedByForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ends(blueGreen(), func(seen rollout.Seen) bool { return seen.Routes[0].Weight == 100 && seen.Autoscalers[0].Disabled })
	w.removedByForce()
	w.wantKept("services,virtualservices,horizontalpodautoscalers", "Deployment/web Rollout web was removed by force during its release. VirtualService web still leads to what that release made")
	w.wantMended(blueGreen())
}

func TestWhatARouteStillLeadsToOutlivesItsWorkloadToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ends(blueGreen(), func(seen rollout.Seen) bool { return seen.Routes[0].Weight == 100 })
	w.kubectl("", "delete", "deployment", "web")
	w.removedByForce()
	w.wantKept("services,virtualservices", "VirtualService/web Rollout web was removed by force during its release. VirtualService web still leads to what that release made")
}

func TestACanaryThatStandsInForStablePodsOutlivesARolloutThatIsRemovedByForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	constant := immediate("      enableExtraWorkloadForCanary: true\n", "      enableExtraWorkloadForCanary: true\n      capacity: Constant\n")
	w.ends(constant, func(seen rollout.Seen) bool {
		return seen.Workload.ScaledDown && seen.Workload.SpecReplicas < seen.Workload.DesiredReplicas
	})
	w.removedByForce()
	w.wantKept("deployments,services,horizontalpodautoscalers", "Deployment/web Rollout web was removed by force during its release. Deployment web does not have all of its pods back, so the pods of the canary stay and serve in their place")
	w.wantMended(constant)
}

func TestAStableServiceThatIsNarrowedOutlivesARolloutThatIsRemovedByForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled()
	w.apply(autoscaler)
	w.adopted()
	w.kubectl("", "patch", "deployment", "web", "--type=strategic", "-p", heldImage("2"))
	w.drive("web", rollout.StatePaused)
	w.kubectl("", "patch", "deployment", "web", "--type=strategic", "-p", heldImage("1"))
	w.letsGo(func(rollout.Seen) bool { return w.get("service/web", "{.spec.selector.pod-template-hash}") != "" })
	w.removedByForce()
	w.wantKept("deployments,services", "Deployment/web Rollout web was removed by force during its release. Service web still selects pods of one version only")
	w.wantMended(canaryRollout)
}

func TestAutoscalersAreGivenBackWhenNothingElseIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ends(blueGreen(), func(seen rollout.Seen) bool { return seen.Autoscalers[0].Disabled })
	w.drive("web", rollout.StateIdle)
	w.kubectl("", "patch", "horizontalpodautoscaler", "web", "--type=merge", "-p", `{"spec":{"scaleTargetRef":{"name":"web-DisableByRollout"}}}`)
	w.removedByForce()
	if n, err := w.orphansLetGo(); n != 1 || err != nil {
		t.Errorf("%d workloads were let go of, error %v", n, err)
	}
	w.wantNothingLeft()
}

// ownKind creates a kind of gateway with a script of its users, and a Service of a release.
func (w *world) ownKind(kind string) {
	w.t.Helper()
	w.settled()
	w.adopted()
	w.apply(strings.NewReplacer("Lane", kind, "lane", strings.ToLower(kind)).Replace(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lanes.sea.example.com}
spec:
  group: sea.example.com
  scope: Namespaced
  names: {kind: Lane, plural: lanes, singular: lane}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kruise-rollout-configuration}
data: {lua.traffic.routing.Lane.sea.example.com: "return obj"}
---
apiVersion: v1
kind: Service
metadata: {name: web-canary, labels: {sluice.dev/rollout-uid: u}, annotations: {sluice.dev/rollout: web}}
spec: {selector: {app: web}, ports: [{port: 80}]}`))
	w.kubectl("", "wait", "crd/"+strings.ToLower(kind)+"s.sea.example.com", "--for=condition=Established", "--timeout=600s")
}

func TestAKindWithAScriptOfItsUsersIsLookedAtToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ownKind("Lane")
	w.apply(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: lanes, labels: {sluice.dev/aggregate-to-executor: "true"}}
rules: [{apiGroups: [sea.example.com], resources: [lanes], verbs: [get, list, watch]}]`)
	w.eventually("the lanes may be listed", func() bool {
		_, err := plane.KubectlStdin(t.Context(), "", "-n", w.namespace, "auth", "can-i", "list", "lanes.sea.example.com", "--as="+api.DefaultInstallation().ExecutorUser())
		return err == nil // the command fails when the answer is no
	})
	w.apply(`
apiVersion: sea.example.com/v1
kind: Lane
metadata: {name: north}
spec: {ports: [web-canary]}`)
	w.removedByForce()
	w.wantKept("services", "Deployment/web Rollout web was removed by force during its release. Lane north still leads to what that release made")
	w.kubectl("", "delete", "lane", "north")
	if n, err := w.orphansLetGo(); n != 1 || err != nil {
		t.Errorf("%d workloads were let go of, error %v", n, err)
	}
	if left := w.kubectl("", "get", "services", "-o", "name"); left != "service/web" {
		t.Errorf("what is left is %s", left)
	}
}

func TestAServiceStaysWhereWhatMayLeadToItCannotBeSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ownKind("Quay")
	w.removedByForce()
	w.wantKept("services", "Deployment/web Rollout web was removed by force during its release. Sluice may not list quays.sea.example.com, so it cannot tell")
}

// canaryService is a Service that a release of Rollout web has created.
const canaryService = `
apiVersion: v1
kind: Service
metadata: {name: web-canary, labels: {sluice.dev/rollout-uid: u}, annotations: {sluice.dev/rollout: web}}
spec: {selector: {app: web}, ports: [{port: 80}]}`

// If an executor's request to create it comes late, an Ingress without a backend is left. A gateway may still send
// requests to it.
func TestAnIngressThatWasMadeBesideAnotherStaysNoLongerThanItsService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled()
	w.adopted()
	w.apply(canaryService)
	for _, name := range []string{"web", "shop"} { // each of another Rollout
		w.apply(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: ` + name + `-canary
  labels: {sluice.dev/rollout-uid: u}
  annotations: {sluice.dev/releases: '{"u":{"namespace":"` + w.namespace + `","name":"` + name + `","service":"web","canaryService":"web-canary","epoch":1,"step":1}}'}
spec: {defaultBackend: {service: {name: web-canary, port: {number: 80}}}}`)
	}
	w.removedByForce()
	w.wantKept("services,ingresses", "Deployment/web Rollout web was removed by force during its release. Ingress ")
	w.kubectl("", "delete", "service", "web-canary")
	for range 2 {
		if _, err := w.orphansLetGo(); err != nil {
			t.Error(err)
		}
	}
	if left := w.kubectl("", "get", "ingresses", "-o", "name"); left != "ingress.networking.k8s.io/shop-canary" {
		t.Errorf("what is left is %s", left)
	}
}

// A policy routes no requests. So the executor deletes a copy together with its canary Service.
func TestACopyOfAPolicyGoesWithARolloutThatIsRemovedByForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled()
	w.adopted()
	w.apply(canaryService, `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata:
  name: web-canary.tuned
  labels: {sluice.dev/rollout-uid: u}
  annotations: {sluice.dev/releases: '{"u":{"namespace":"`+w.namespace+`","name":"web","service":"web","canaryService":"web-canary","epoch":1,"step":1}}'}
spec: {host: web-canary}`, `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: tuned}
spec: {host: web}`)
	w.removedByForce()
	for range 2 {
		if _, err := w.orphansLetGo(); err != nil {
			t.Error(err)
		}
	}
	if left := w.kubectl("", "get", "services,destinationrules", "-o", "name"); left != "service/web\ndestinationrule.networking.istio.io/tuned" {
		t.Errorf("what is left is %s", left)
	}
}
