package gateway

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/test/world"
)

const podHash = "pod-template-hash"

// The executor fixes the Services of a release that waits at a step, after every change by others.
func TestTheServicesOfAReleaseAreMendedWhileItWaits(t *testing.T) {
	t.Parallel()
	s := aShop(t, "HTTPRoute", oneRule, byWeight, "gateway: {httpRouteName: web}")
	s.release("web:2")
	s.await(world.PausedAt(1))
	selects := func(service string) string {
		hash, _, _ := unstructured.NestedString(s.w.Get(t, s.ns, "service", service).Object, "spec", "selector", podHash)
		return hash
	}
	stable, canary := selects("web"), selects("web-canary")
	if stable == "" || canary == "" || stable == canary {
		t.Fatalf("the Services select %q and %q", stable, canary)
	}
	mended := func(service, hash, how string) {
		t.Helper()
		s.w.AwaitObject(t, s.ns, "service", service, how, func(u *unstructured.Unstructured) bool {
			if u == nil {
				return false
			}
			now, _, _ := unstructured.NestedString(u.Object, "spec", "selector", podHash)
			return now == hash
		})
	}
	for range 2 {
		s.patch("service", `{"spec":{"selector":{"`+podHash+`":null}}}`)
		mended("web", stable, "to select stable pods again")
		s.patch("service", `{"spec":{"selector":{"`+podHash+`":"`+canary+`"}}}`)
		mended("web", stable, "to select stable pods and no canary's")
		if err := s.w.Patch(t, s.ns, "service", "web-canary", `{"spec":{"selector":{"`+podHash+`":"`+stable+`"}}}`); err != nil {
			t.Fatal(err)
		}
		mended("web-canary", canary, "to select the canary's pods again")
		if err := s.w.Client(t, s.ns, "service").Delete(t.Context(), "web-canary", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		mended("web-canary", canary, "to come back")
	}
	s.wantRules("[]: web 80, web-canary 20")
	s.w.Approve(t, s.ns, "web")
	s.await(world.PausedAt(2))
	s.release("web:1")
	s.await(world.Healthy)
	s.wantRestored(nil)
	if hash := selects("web"); hash != "" {
		t.Errorf("the stable Service still selects %s", hash)
	}
}
