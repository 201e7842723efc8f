package kube_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
)

func TestWhatIsMissingIsAProblemThatSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	route := func(ref string) string {
		return strings.Replace(canaryRollout, "{apiVersion: networking.istio.io/v1, kind: VirtualService, name: web}", ref, 1)
	}
	cases := map[string]struct {
		rollout string
		reason  api.Reason
		blind   bool
		says    []string
		shown   bool // before all other problems
	}{
		"a kind that the cluster does not serve": {
			route("{apiVersion: example.com/v1, kind: Tunnel, name: web}"), rollout.ReasonRouteMissing, false,
			[]string{"does not serve Tunnel web of example.com/v1", "CustomResourceDefinition"}, false,
		},
		"a version that the cluster does not serve": {
			route("{apiVersion: networking.istio.io/v9, kind: VirtualService, name: web}"), rollout.ReasonRouteMissing, false, []string{"networking.istio.io/v9"}, false,
		},
		"a kind without a script": {
			route("{apiVersion: networking.istio.io/v1, kind: ProxyConfig, name: web}"), rollout.ReasonScriptMissing, false,
			[]string{"lua.traffic.routing.ProxyConfig.networking.istio.io", w.namespace + "/kruise-rollout-configuration"}, false,
		},
		"a kind for which none can be written, which is not served either": {
			route("{apiVersion: extensions.higress.io/v1alpha1, kind: WasmPlugin, name: web}"), rollout.ReasonScriptMissing, false,
			[]string{"WasmPlugin of group extensions.higress.io cannot share traffic between versions: it runs a plugin; use an Ingress of class higress"}, true,
		},
		"a class of Ingresses for which none can be written": {
			strings.Replace(canaryRollout, "customNetworkRefs: [{apiVersion: networking.istio.io/v1, kind: VirtualService, name: web}]", "ingress: {name: web, classType: gce}", 1),
			rollout.ReasonScriptMissing, false,
			[]string{"Ingress of class gce cannot share traffic between versions: GKE's load balancer has no weights in an Ingress; use an HTTPRoute with a Gateway of GKE"}, true,
		},
		"steps that shrink": {
			strings.Replace(canaryRollout, "replicas: 1,", "replicas: 101%,", 1), rollout.ReasonInvalidSpec, true, []string{"The Rollout is not valid: ", "replicas"}, false,
		},
		"a pod label that breaks the selector": {
			strings.Replace(canaryRollout, "      steps:", "      patchPodTemplateMetadata: {labels: {app: other}}\n      steps:", 1),
			rollout.ReasonInvalidSpec, false, []string{"patchPodTemplateMetadata", "app"}, false,
		},
	}
	w.apply(deployment, service)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w.apply(c.rollout)
			s := w.observe("web")
			for i, p := range s.Seen.Problems {
				if p.Reason != c.reason {
					continue
				}
				if c.shown && i > 0 {
					t.Errorf("%s is told first", s.Seen.Problems[0].Message)
				}
				if p.Unknown != c.blind || p.Warning {
					t.Errorf("blind is %t and advisory %t", p.Unknown, p.Warning)
				}
				for _, part := range c.says {
					if !strings.Contains(p.Message, part) {
						t.Errorf("the message %q does not say %q", p.Message, part)
					}
				}
				return
			}
			t.Errorf("the problems are %v, without %s", s.Seen.Problems, c.reason)
		})
	}
}

func TestAbsentObjectsAreSeenAsAbsent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(canaryRollout)
	s := w.observe("web")
	if s.Seen.Workload != nil || s.Seen.Canary != nil || s.Seen.Backends[0].StableService != nil || s.Seen.Backends[0].CanaryService != nil || !s.Seen.Routes[0].Missing {
		t.Errorf("something is seen of nothing: %+v", s.Seen)
	}
	if diff := cmp.Diff([]api.Reason{rollout.ReasonAdmissionPolicyMissing}, reasons(s.Seen.Problems)); diff != "" {
		t.Errorf("the problems differ (-want +got):\n%s", diff)
	}
	if p := s.Seen.Problems[0]; !p.Warning || !strings.Contains(p.Message, "sluice install --print --part policies | kubectl apply --server-side -f -") {
		t.Errorf("the absence of the policies is told as %+v", p)
	}
	if _, err := w.client.Observe(t.Context(), w.key("none")); !apiclient.IsGone(err) {
		t.Errorf("a Rollout that does not exist is told as %v", err)
	}
}

// limit creates a user with these rules in the namespace, and makes the world's client observe as that user.
func (w *world) limit(user, rules string) {
	w.t.Helper()
	w.apply(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: some}
rules:`+rules, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: some}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: some}
subjects: [{kind: User, name: `+user+`, apiGroup: rbac.authorization.k8s.io}]`)
	w.client = w.clientAs(user)
}

func TestAMissingPermissionIsToldWithTheRuleThatGrantsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limited := "limited-" + w.namespace
	w.settled()
	w.limit(limited, `
- {apiGroups: ["", apps, rollouts.kruise.io, discovery.k8s.io], resources: ["*"], verbs: ["*"]}
- {apiGroups: [networking.istio.io], resources: [destinationrules], verbs: [list]}`)
	s := w.observe("web")
	want := `Sluice may not get virtualservices.networking.istio.io in namespace ` + w.namespace + `. Apply this; the ClusterRole sluice-executor-gateways picks it up by its labels:
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: sluice-gateway-virtualservices.networking.istio.io-read
  labels:
    sluice.dev/aggregate-to-watcher: "true"
    sluice.dev/aggregate-to-executor: "true"
rules:
- apiGroups: ["networking.istio.io"]
  resources: ["virtualservices"]
  verbs: ["get", "list", "watch"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: sluice-gateway-virtualservices.networking.istio.io-write
  labels:
    sluice.dev/aggregate-to-executor: "true"
rules:
- apiGroups: ["networking.istio.io"]
  resources: ["virtualservices"]
  verbs: ["update"]
`
	if diff := cmp.Diff([]api.Reason{rollout.ReasonForbidden, rollout.ReasonForbidden}, reasons(s.Seen.Problems)); diff != "" {
		t.Fatalf("the problems differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(rollout.Problem{Reason: rollout.ReasonForbidden, Unknown: true, Route: s.Seen.Routes[0].Object, Message: want}, s.Seen.Problems[0]); diff != "" {
		t.Errorf("the missing permission differs (-want +got):\n%s", diff)
	}
	_, advice, _ := strings.Cut(want, "labels:\n")
	advice = strings.ReplaceAll(advice, "sluice.dev/aggregate-to-executor", limited)
	w.apply(advice, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: `+limited+`}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {`+limited+`: "true"}}]}
rules: []`, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: `+limited+`}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: `+limited+`}
subjects: [{kind: User, name: `+limited+`, apiGroup: rbac.authorization.k8s.io}]`)
	w.eventually("the permission that was asked for is enough", func() bool { return !w.observe("web").Seen.Problems[0].Unknown })
	if p := s.Seen.Problems[1]; !p.Warning || p.Unknown || !strings.Contains(p.Message, "mutatingadmissionpolicies") {
		t.Errorf("policies that may not be read are told as %+v", p)
	}
}

func TestScriptsThatMayNotBeReadPutOnlyTheRoutesInDoubt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled()
	w.apply(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: noscripts}
rules:
- {apiGroups: [""], resources: [services], verbs: [get]}
- {apiGroups: [apps, rollouts.kruise.io, discovery.k8s.io, networking.istio.io], resources: ["*"], verbs: ["*"]}`, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: noscripts}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: noscripts}
subjects: [{kind: User, name: noscripts, apiGroup: rbac.authorization.k8s.io}]`)
	w.client = w.clientAs("noscripts")
	s := w.observe("web")
	for _, p := range s.Seen.Problems {
		if p.Unknown && (p.Route != s.Seen.Routes[0].Object || !strings.Contains(p.Message, `resources: ["configmaps"]`)) {
			t.Errorf("another problem than the scripts' is in the way: %+v", p)
		}
	}
	if p := s.Seen.Problems[0]; !p.Unknown || p.Reason != rollout.ReasonForbidden {
		t.Errorf("scripts that may not be read are told as %+v", p)
	}
}

func TestAWriteThatIsNotPermittedIsToldAsAProblem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled()
	w.apply(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reads}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: [get, list]}`, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reads}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reads}
subjects: [{kind: User, name: reader, apiGroup: rbac.authorization.k8s.io}]`)
	w.client = w.clientAs("reader")
	s := w.observe("web")
	digest := s.Seen.Routes[0].Steps[1].Digest
	for action, verb := range map[rollout.Action]string{
		rollout.AdoptWorkload{}:                  "patch",
		rollout.CreateCanary{Name: "web-canary"}: "create",
		rollout.ApplyRoute{Object: s.Seen.Routes[0].Object, Step: 1, Digest: digest}: "update",
	} {
		err := w.client.ApplyAction(t.Context(), s, action)
		p, ok := apiclient.ProblemOf(err)
		if !ok || p.Reason != rollout.ReasonForbidden || !strings.Contains(p.Message, "may not "+verb) || !apiclient.IsForbidden(err) {
			t.Errorf("%s: the refusal is told as %v", action, err)
		}
		s.AddProblem(p)
	}
	if len(s.Seen.Problems) < 3 || !s.Seen.Problems[0].Unknown {
		t.Errorf("the problems that were added are seen as %v", s.Seen.Problems)
	}
}

// It runs before the parallel tests, which see a cluster without policies.
func TestPoliciesThatAreInstalledAreNoProblem(t *testing.T) {
	w := newWorld(t)
	w.apply(canaryRollout)
	for _, name := range []string{"sluice-hold-deployment", "sluice-guard-deployment"} {
		w.apply(strings.ReplaceAll(harmlessPolicy, "NAME", name))
	}
	t.Cleanup(func() {
		_, err := plane.Kubectl(context.Background(), "delete", "mutatingadmissionpolicies,mutatingadmissionpolicybindings", "--all")
		if err != nil {
			t.Error(err)
		}
	})
	if got := reasons(w.observe("web").Seen.Problems); len(got) > 0 {
		t.Errorf("the problems are %v", got)
	}
}

// harmlessPolicy has the name of a shipped policy and acts on no object, so that it does not affect the other tests.
const harmlessPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: NAME}
spec:
  failurePolicy: Ignore
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [nothing]}]
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{}'}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME}`

// An executor that may not list policies holds steps. It still sees the route, and must be able to restore it.
func TestPoliciesThatMayNotBeListedLeaveTheRouteSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limited := "unlisted-" + w.namespace
	w.settled()
	w.adopted()
	w.limit(limited, `
- {apiGroups: ["", apps, rollouts.kruise.io, discovery.k8s.io], resources: ["*"], verbs: ["*"]}
- {apiGroups: [networking.istio.io], resources: [virtualservices], verbs: ["*"]}`)
	s := w.observe("web")
	for _, p := range s.Seen.Problems {
		if !strings.Contains(p.Message, "list destinationrules") {
			continue
		}
		if p.Reason != rollout.ReasonForbidden || p.Unknown || p.Warning || p.Route != s.Seen.Routes[0].Object {
			t.Errorf("it is told as %+v", p)
		}
		return
	}
	t.Errorf("the problems are %v", s.Seen.Problems)
}
