package world_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/test/world"
)

const executor = "system:serviceaccount:sluice-system:sluice-executor"

// wrote returns an accepted write that gives an object a spec and, if any, pairs of annotations.
func wrote(user, verb, resource, name string, spec map[string]any, annotations ...string) world.Write {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetName(name)
	if strings.HasSuffix(name, "-canary") {
		u.SetLabels(map[string]string{"sluice.dev/rollout-uid": "u1"})
	}
	marks := map[string]string{}
	for i := 0; i < len(annotations); i += 2 {
		marks[annotations[i]] = annotations[i+1]
	}
	u.SetAnnotations(marks)
	return world.Write{Verb: verb, User: user, Resource: resource, Name: name, Code: 200, Object: u}
}

// httpRoute returns an HTTPRoute whose weights add up to 200.
func httpRoute(weight int64) world.Write {
	to := func(name string, weight int64) any { return map[string]any{"name": name, "weight": weight} }
	rule := map[string]any{"backendRefs": []any{to("app", 200-2*weight), to("app-canary", 2*weight)}}
	return wrote(executor, "update", "httproutes", "app", map[string]any{"rules": []any{rule}})
}

// canaryIngress returns an Ingress of the canary Service.
func canaryIngress(weight string) world.Write {
	paths := []any{map[string]any{"backend": map[string]any{"service": map[string]any{"name": "app-canary"}}}}
	return wrote(executor, "create", "ingresses", "app-canary", map[string]any{"rules": []any{map[string]any{"http": map[string]any{"paths": paths}}}},
		"nginx.ingress.kubernetes.io/canary-weight", weight)
}

// policyWrite returns a write of a DestinationRule for a host.
func policyWrite(user, verb, name, host string) world.Write {
	w := wrote(user, verb, "destinationrules", name, map[string]any{"host": host})
	w.Object.SetAPIVersion("networking.istio.io/v1")
	w.Object.SetKind("DestinationRule")
	return w
}

func deleted(user, resource, name string) world.Write {
	return world.Write{Verb: "delete", User: user, Resource: resource, Name: name, Code: 200}
}

func TestEachBreachOfALawIsToldAndLawfulWritesAreNot(t *testing.T) {
	t.Parallel()
	var (
		toCanary     = wrote(executor, "update", "virtualservices", "vs", map[string]any{"http": []any{map[string]any{"host": "web-canary"}}}, "sluice.dev/releases", `{"u1":{}}`)
		restored     = wrote(executor, "update", "virtualservices", "vs", map[string]any{"http": []any{map[string]any{"host": "web"}}})
		service      = wrote(executor, "create", "services", "web-canary", nil)
		canary       = wrote(executor, "create", "deployments", "app-canary", nil, "sluice.dev/epoch", "1")
		serviceGone  = deleted(executor, "services", "web-canary")
		canaryGone   = deleted(executor, "deployments", "app-canary")
		takenByUser  = deleted("alice", "deployments", "app-canary")
		heldApp      = wrote("alice", "patch", "deployments", "app", map[string]any{"paused": true}, "rollouts.kruise.io/in-progressing", "{}")
		freeByUser   = wrote("alice", "patch", "deployments", "app", map[string]any{"paused": false})
		freeByOurs   = wrote(executor, "patch", "deployments", "app", map[string]any{})
		forbidden    = world.Write{Verb: "create", User: executor, Resource: "services", Name: "x", Code: 403}
		userRefused  = world.Write{Verb: "create", User: "alice", Resource: "services", Name: "x", Code: 403}
		nextEpoch    = wrote(executor, "create", "deployments", "app-canary", nil, "sluice.dev/epoch", "2")
		unanswered   = world.Write{Verb: "update", User: executor, Resource: "virtualservices", Name: "vs", Code: 504}
		policy       = policyWrite("alice", "create", "own", "web")
		policyCopy   = policyWrite(executor, "create", "web-canary", "web-canary")
		copyGone     = deleted(executor, "destinationrules", "web-canary")
		policyGone   = deleted("alice", "destinationrules", "own")
		wholeRelease = []world.Write{heldApp, canary, service, toCanary, restored, serviceGone, freeByOurs, canaryGone}
	)
	for name, c := range map[string]struct {
		writes []world.Write
		want   string
	}{
		"a whole release is lawful":                        {wholeRelease, ""},
		"a release after another is lawful":                {append(wholeRelease[:len(wholeRelease):len(wholeRelease)], heldApp, nextEpoch, service, toCanary), ""},
		"a release that copies a policy is lawful":         {[]world.Write{policy, service, policyCopy, toCanary, restored, copyGone, serviceGone}, ""},
		"a route before the copy of a policy":              {[]world.Write{policy, service, toCanary, policyCopy}, "was led to Service web-canary, which lacks a copy of destinationrules/own"},
		"a copy deleted while its Service is routed to":    {[]world.Write{policy, service, policyCopy, toCanary, copyGone}, "was deleted while virtualservices/vs led to Service web-canary"},
		"a copy deleted after its policy is lawful":        {[]world.Write{policy, service, policyCopy, toCanary, policyGone, copyGone}, ""},
		"a policy that came later needs no copy at once":   {[]world.Write{service, policy, toCanary}, ""},
		"a copy that may have been made is not missed":     {[]world.Write{policy, service, {Verb: "create", User: executor, Resource: "destinationrules", Name: "web-canary", Code: 504}, toCanary}, ""},
		"a policy of its owner's for the canary is enough": {[]world.Write{policy, policyWrite("alice", "create", "mine", "web-canary"), service, toCanary}, ""},
		"a route before its Service":                       {[]world.Write{toCanary, service}, "does not exist"},
		"a route after its Service":                        {[]world.Write{service, serviceGone, toCanary}, "does not exist"},
		"a Service deleted while routed to":                {[]world.Write{service, toCanary, serviceGone}, "was deleted while virtualservices/vs routed to it"},
		"a restore of which no answer is known":            {[]world.Write{canary, service, toCanary, unanswered, serviceGone, canaryGone}, ""},
		"a canary deleted while routed to":                 {[]world.Write{canary, service, toCanary, canaryGone}, "carried its release"},
		"a canary made twice in an epoch":                  {[]world.Write{canary, canaryGone, canary}, "created again"},
		"a canary that a user took away may be made again": {[]world.Write{canary, takenByUser, canary}, ""},
		"a user who sets a held workload free":             {[]world.Write{heldApp, freeByUser}, "alice set the held Deployment app free"},
		"an executor without a permission":                 {[]world.Write{forbidden}, "may not create services x"},
		"a user without a permission":                      {[]world.Write{userRefused}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := strings.Join(world.Breaches(c.writes), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("breaches are %q, want %q", got, c.want)
			}
		})
	}
}
