package gateway

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// A GitOps tool that writes the Ingress every second, in any way, causes no conflict: the release creates its own
// Ingress.
func TestAGitOpsActorOnAnIngressIsNotMet(t *testing.T) {
	t.Parallel()
	for name, way := range world.Ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := anIngressShop(t, "nginx", "", ingressRules, byWeight)
			actor := s.actor(way, "networking.k8s.io/v1", "Ingress")
			actor.Rounds(t, 1)
			s.release("web:2")
			s.await(world.PausedAt(1))
			actor.Rounds(t, 2)
			if u := s.w.Get(t, s.ns, "ingress", "web-canary"); u == nil || u.GetAnnotations()["nginx.ingress.kubernetes.io/canary-weight"] != "20" {
				t.Errorf("the canary Ingress is %v", u)
			}
			s.w.Approve(t, s.ns, "web")
			s.await(world.PausedAt(2))
			s.w.Approve(t, s.ns, "web")
			s.await(world.Healthy)
			s.noIngress("web-canary")
		})
	}
}

// The executor does not fight a GitOps tool that writes the rules of an HTTPRoute. The release stalls and names the
// tool. It goes on when the tool leaves the rules alone.
func TestAGitOpsActorOnAnHTTPRouteIsToldAndNotFought(t *testing.T) {
	t.Parallel()
	for name, way := range world.Ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := aShop(t, "HTTPRoute", oneRule, byWeight, "gateway: {httpRouteName: web}")
			actor := s.actor(way, "gateway.networking.k8s.io/v1", "HTTPRoute")
			actor.Rounds(t, 1)
			s.release("web:2")
			s.await(world.HeldFor(rollout.ReasonRouteConflict))
			actor.Rounds(t, 2)
			before := s.route()
			actor.Rounds(t, 3)
			if now := s.route(); now.GetResourceVersion() != before.GetResourceVersion() {
				t.Error("the HTTPRoute still changes: there is a write war")
			}
			actor.Stop()
			s.w.AwaitObject(t, s.ns, "httproute", "web", "to be routed", func(u *unstructured.Unstructured) bool {
				rules, _, _ := unstructured.NestedSlice(u.Object, "spec", "rules")
				refs, _, _ := unstructured.NestedSlice(rules[0].(map[string]any), "backendRefs")
				return len(refs) == 2
			})
			s.await(world.PausedAt(1))
			s.wantRules("[]: web 80, web-canary 20")
			s.release("web:1")
			s.await(world.Healthy)
			s.wantRules("[]: web 5")
		})
	}
}

// actor writes the owner's manifest of the object repeatedly.
func (s *shop) actor(way world.Way, apiVersion, kind string) *world.Actor {
	s.Helper()
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": apiVersion, "kind": kind, "spec": s.before.Object["spec"],
		"metadata": map[string]any{"name": "web", "namespace": s.ns, "labels": s.before.GetLabels()},
	})
	if err != nil {
		s.Fatal(err)
	}
	manifest := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &manifest.Object); err != nil {
		s.Fatal(err)
	}
	return s.w.Act(s.T, way, s.w.Client(s.T, s.ns, s.kind), manifest)
}
