package watcher

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	webDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1"}]}`
	webService = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}`
	webRoute = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web}
spec: {hosts: [web.example.com], http: [{route: [{destination: {host: web}}]}]}`
)

// webRollout returns the Rollout of the fact tests without its status.
func webRollout(name string) string {
	spec, _, _ := strings.Cut(pausedRollout, "status:")
	return strings.NewReplacer("name: web, namespace: shop, uid: u, generation: 2", "name: "+name).Replace(spec)
}

const (
	webStatus = `{"status":{"canaryStatus":{"currentStepIndex":1,"nextStepIndex":2,"currentStepState":"StepPaused","canaryReplicas":1,"canaryReadyReplicas":1},
		"currentStepIndex":1,"currentStepState":"StepPaused","sluice":{"epoch":1,"step":1,"state":"StepPaused","pauseSeq":1}}}`
	webMessage = `{"status":{"message":"progress"}}`
)

// withEverything prepares a namespace in which the Rollout web has all that it needs, and waits in its first step.
func withEverything(s *scene) {
	s.apply(webDeployment, webService, webRoute, webRollout("web"))
	s.patch("rollout/web", webStatus, "--subresource=status")
	s.kubectl("", "wait", "deployment/web", "--for=condition=Available", "--timeout=600s")
}

func TestWhatAReleaseWaitsForWakesIt(t *testing.T) {
	t.Parallel()
	s := newScene(t, withEverything)
	s.wakes("web", "the start of the watcher", func() {})
	const scripts = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kruise-rollout-configuration}\ndata: {x: one}"
	for _, c := range []struct {
		what string
		do   func()
	}{
		{"a new version", func() {
			s.patch("deployment/web", `{"spec":{"template":{"metadata":{"labels":{"v":"2"}}}}}`)
		}},
		{"another scale", func() { s.patch("deployment/web", `{"spec":{"replicas":2}}`) }},
		{"an approval", func() {
			s.patch("rollout/web", `{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`, "--subresource=status")
		}},
		{"a jump", func() {
			s.patch("rollout/web", `{"status":{"canaryStatus":{"nextStepIndex":1}}}`, "--subresource=status")
		}},
		{"another plan", func() { s.patch("rollout/web", `{"spec":{"strategy":{"paused":true}}}`) }},
		{"an edit of the route", func() { s.patch("virtualservice/web", `{"spec":{"hosts":["other.example.com"]}}`) }},
		{"the end of the route", func() { s.kubectl("", "delete", "virtualservice/web") }},
		{"a new route", func() { s.apply(webRoute) }},
		{"a pod of others behind the Service", func() {
			s.apply("apiVersion: v1\nkind: Pod\nmetadata: {name: other, labels: {app: web}}\nspec: {containers: [{name: web, image: web}]}")
		}},
		{"another selector of the Service", func() { s.patch("service/web", `{"spec":{"selector":{"tier":"x"}}}`) }},
		{"the end of the Service", func() { s.kubectl("", "delete", "service/web") }},
		{"scripts", func() { s.apply(scripts) }},
		{"other scripts", func() { s.apply(strings.Replace(scripts, "x: one", "x: two", 1)) }},
		{"the end of the scripts", func() { s.kubectl("", "delete", "configmap/kruise-rollout-configuration") }},
		{"the end of the workload", func() { s.kubectl("", "delete", "deployment/web") }},
		{"a new workload", func() { s.apply(webDeployment) }},
		{"a Rollout for the same workload that goes", func() {
			s.apply(strings.Replace(webRollout("rival"), ", finalizers: [rollouts.kruise.io/rollout]", "", 1))
			s.kubectl("", "delete", "rollout/rival")
		}},
		{"its deletion", func() { s.kubectl("", "delete", "rollout/web", "--wait=false") }},
		{"its end", func() { s.patch("rollout/web", `{"metadata":{"finalizers":null}}`) }},
		{"another one of its name", func() { s.apply(webRollout("web")) }},
	} {
		s.wakes("web", c.what, c.do)
	}
}

// It does not run in parallel with the tests that install kinds and policies, which wake every Rollout.
func TestWhatNoReleaseNeedsToKnowWakesNobody(t *testing.T) {
	s := newScene(t, withEverything)
	s.wakes("web", "the start of the watcher", func() {})
	s.wakes("web", "what tells that all earlier changes of the workload were seen", func() {
		s.patch("deployment/web", `{"metadata":{"labels":{"rollouts.kruise.io/rollout-id":"0"}}}`)
	})
	s.quiet("web", "our own commit", func() { s.patch("rollout/web", webMessage, "--subresource=status") },
		func() { s.patch("rollout/web", `{"spec":{"strategy":{"paused":true}}}`) })
	s.quiet("web", "an annotation of a Rollout", func() { s.kubectl("", "annotate", "rollout/web", "a=b") },
		func() { s.patch("rollout/web", `{"spec":{"strategy":{"paused":false}}}`) })
	s.quiet("web", "a label of the workload", func() { s.kubectl("", "label", "deployment/web", "a=b") },
		func() { s.patch("deployment/web", `{"metadata":{"labels":{"rollouts.kruise.io/rollout-id":"1"}}}`) })
	another := strings.NewReplacer("name: web", "name: shop", "app: web", "app: shop").Replace(webDeployment) // its pods are not in the endpoints of web
	s.quiet("web", "another workload", func() { s.apply(another) },
		func() { s.patch("deployment/web", `{"metadata":{"labels":{"rollouts.kruise.io/rollout-id":"2"}}}`) })
	s.quiet("web", "a label of the Service", func() { s.kubectl("", "label", "service/web", "a=b") },
		func() { s.patch("service/web", `{"spec":{"selector":{"tier":"x"}}}`) })
}

// It does not run in parallel with the tests that install kinds and policies, which wake every Rollout.
func TestAStartWakesEachRolloutOnce(t *testing.T) {
	s := newScene(t, func(s *scene) {
		withEverything(s)
		s.apply(webRollout("other"), webRollout("third"))
	})
	for timeout := time.After(10 * time.Minute); len(s.seen()) < 3; {
		select {
		case <-s.told:
		case <-timeout:
			t.Fatalf("hints: %v", s.seen())
		}
	}
	if diff := cmp.Diff(map[string]int{"web": 1, "other": 1, "third": 1}, s.seen()); diff != "" {
		t.Errorf("hints (-want +got):\n%s", diff)
	}
}

// gadget returns the definition of a gateway kind of a test.
func gadget(group string) string {
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets, singular: gadget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}`, group)
}

func gadgetRollout(group string) string {
	return strings.NewReplacer("networking.istio.io/v1", group+"/v1", "VirtualService", "Gadget").Replace(webRollout("web"))
}

func gadgetObject(group, host string) string {
	return fmt.Sprintf("apiVersion: %s/v1\nkind: Gadget\nmetadata: {name: web}\nspec: {host: %s}", group, host)
}

func TestAGatewayKindMayComeAndGo(t *testing.T) {
	t.Parallel()
	const group = "comes.example.com"
	s := newScene(t, func(s *scene) {
		s.apply(gadgetRollout(group))
		s.apply(gatewayRole(group, s.namespace))
	})
	s.wakes("web", "the start of the watcher", func() {})
	install := func() {
		s.apply(gadget(group))
		s.kubectl("", "wait", "crd/gadgets."+group, "--for=condition=Established")
	}
	t.Cleanup(func() { s.kubectl("", "delete", "crd", "gadgets."+group, "--ignore-not-found") })
	for range 2 {
		s.wakes("web", "the kind being installed", install)
		s.wakes("web", "an object of the kind", func() { s.apply(gadgetObject(group, "a")) })
		s.wakes("web", "an edit of it", func() { s.apply(gadgetObject(group, "b")) })
		s.wakes("web", "the end of the kind", func() { s.kubectl("", "delete", "crd", "gadgets."+group) })
	}
}

func TestAGatewayKindMayBeGrantedLater(t *testing.T) {
	t.Parallel()
	const group = "granted.example.com"
	s := newScene(t, func(s *scene) {
		s.apply(gadget(group))
		s.kubectl("", "wait", "crd/gadgets."+group, "--for=condition=Established")
		s.apply(gadgetRollout(group), gadgetObject(group, "a"))
	})
	t.Cleanup(func() { s.kubectl("", "delete", "crd", "gadgets."+group) })
	s.wakes("web", "the start of the watcher, though a kind is forbidden", func() {})
	s.wakes("web", "the permission", func() { s.apply(gatewayRole(group, s.namespace)) })
	s.wakes("web", "an edit", func() { s.apply(gadgetObject(group, "b")) })
}

// gatewayRole lets the watcher read a kind, as the message about the missing permission says.
func gatewayRole(group, name string) string {
	return fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %s, labels: {sluice.dev/aggregate-to-watcher: "true"}}
rules: [{apiGroups: [%q], resources: [gadgets], verbs: [get, list, watch]}]`, name, group)
}

func TestAdmissionPoliciesWakeEverybody(t *testing.T) {
	t.Parallel()
	s := newScene(t, func(s *scene) { s.apply(webRollout("web")) })
	s.wakes("web", "the start of the watcher", func() {})
	const policy = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: wakes}
spec:
  failurePolicy: Ignore
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [none.example.com], apiVersions: [v1], operations: [CREATE], resources: [nones]}]}
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: \"remove\", path: \"/spec/x\"}]"}}]`
	const binding = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: wakes}
spec: {policyName: wakes}`
	s.wakes("web", "a policy", func() { s.apply(policy) })
	s.wakes("web", "a binding", func() { s.apply(binding) })
	s.wakes("web", "the end of a binding", func() { s.kubectl("", "delete", "mutatingadmissionpolicybinding", "wakes") })
	s.wakes("web", "the end of a policy", func() { s.kubectl("", "delete", "mutatingadmissionpolicy", "wakes") })
}
