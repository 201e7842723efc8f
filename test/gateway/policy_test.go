package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// tlsShop returns a shop whose application speaks TLS, as its DestinationRule tells callers.
func tlsShop(t *testing.T, further string) *shop {
	t.Helper()
	of := namings["a VirtualService and a DestinationRule"]
	return aShopOf(t, of.kind, of.manifests("0")+further)
}

// The executor copies each edit of a policy during the release, and deletes the copy when the owner deletes the policy.
func TestACopyOfAPolicyFollowsItsOwner(t *testing.T) {
	t.Parallel()
	s := tlsShop(t, "")
	s.release("web:2")
	s.await(world.PausedAt(1))
	copied := func(what string, is func(string) bool) {
		t.Helper()
		s.w.AwaitObject(t, s.ns, "destinationrule", "web-canary.tuned", what, func(u *unstructured.Unstructured) bool {
			if u == nil {
				return is("")
			}
			text, _ := json.Marshal(u.Object["spec"])
			return is(string(text))
		})
	}
	if err := s.w.Patch(t, s.ns, "destinationrule", "tuned", `{"spec":{"trafficPolicy":{"tls":{"mode":"MUTUAL","credentialName":"c"}}}}`); err != nil {
		t.Fatal(err)
	}
	copied("to have its owner's edit", func(spec string) bool { return strings.Contains(spec, `"mode":"MUTUAL"`) })
	s.w.Do(t, "delete", "destinationrule", "web-canary.tuned", "-n", s.ns)
	copied("to come back", func(spec string) bool { return strings.Contains(spec, `"mode":"MUTUAL"`) })
	s.w.Do(t, "delete", "destinationrule", "tuned", "-n", s.ns)
	copied("to go with its policy", func(spec string) bool { return spec == "" })
	s.release("web:1")
	s.await(world.Healthy)
	s.wantRestored(nil)
}

// No gateway sends requests to the canary in plain text while it sends those to the stable version over TLS.
func TestAReleaseWhoseCanaryWouldBeSpokenToInPlainTextIsHeld(t *testing.T) {
	t.Parallel()
	s := tlsShop(t, "---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: own}\nspec: {host: web-canary}\n")
	s.release("web:2")
	r := s.await(world.HeldFor(rollout.ReasonRouteUnsupported))
	const says = "DestinationRule tuned has requests to Service web carried over TLS, and DestinationRule own has those to Service web-canary carried in plain text"
	if !strings.Contains(r.Status.Message, says) {
		t.Errorf("it says %s", r.Status.Message)
	}
	if s.route().GetResourceVersion() != s.before.GetResourceVersion() || s.w.Get(t, s.ns, "deployment", "web-canary") != nil {
		t.Error("something was changed")
	}
	s.w.Do(t, "delete", "destinationrule", "own", "-n", s.ns)
	s.await(world.PausedAt(1))
	if made := s.made("destinationrule"); len(made) != 1 {
		t.Errorf("%d are made", len(made))
	}
}

// The status reports a policy that the release does not copy, and the release goes on.
func TestAPolicyThatDoesNotCoverTheCanaryIsTold(t *testing.T) {
	t.Parallel()
	const policy = "---\napiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: callers}\nspec: {targetRefs: [{group: \"\", kind: Service, name: web}]}\n"
	s := tlsShop(t, policy)
	s.release("web:2")
	r := s.await(func(r *api.Rollout) bool {
		return world.PausedAt(1)(r) && world.Condition(r, api.ConditionCanaryUncovered) != nil
	})
	const says = "AuthorizationPolicy callers names Service web and not Service web-canary"
	if c := world.Condition(r, api.ConditionCanaryUncovered); c.Reason != rollout.ReasonPolicyOfStable || !strings.Contains(c.Message, says) {
		t.Errorf("it says %s: %s", c.Reason, c.Message)
	}
	if held := world.Condition(r, api.ConditionStalled); held != nil {
		t.Errorf("the release is held: %s", held.Message)
	}
	s.release("web:1")
	s.await(func(r *api.Rollout) bool {
		return world.Healthy(r) && world.Condition(r, api.ConditionCanaryUncovered) == nil
	})
	s.wantRestored(nil)
}

// A VirtualService picks a version for each request. Where a DestinationRule keeps users with one pod, the status says so.
func TestSessionsThatAReleaseTearsAreTold(t *testing.T) {
	t.Parallel()
	of := namings["a VirtualService and a DestinationRule"]
	of.policy = strings.Replace(of.policy, "tls: {mode: SIMPLE}", "loadBalancer: {consistentHash: {httpCookie: {name: session, ttl: 0s}}}", 1)
	s := aShopOf(t, of.kind, of.manifests("0"))
	s.release("web:2")
	r := s.await(func(r *api.Rollout) bool {
		return world.PausedAt(1)(r) && world.Condition(r, api.ConditionSessionsTorn) != nil
	})
	const says = "consistentHash of DestinationRule tuned keeps users of Service web with one pod, and VirtualService web picks a version for each request"
	if c := world.Condition(r, api.ConditionSessionsTorn); c.Reason != rollout.ReasonStickySessions || !strings.Contains(c.Message, says) {
		t.Errorf("it says %s: %s", c.Reason, c.Message)
	}
	if held := world.Condition(r, api.ConditionStalled); held != nil {
		t.Errorf("the release is held: %s", held.Message)
	}
	s.release("web:1")
	s.await(func(r *api.Rollout) bool {
		return world.Healthy(r) && world.Condition(r, api.ConditionSessionsTorn) == nil
	})
	s.wantRestored(nil)
}
