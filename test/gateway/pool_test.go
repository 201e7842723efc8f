package gateway

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

const pool = `---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: NAME}
spec:
  selector: {matchLabels: {app: web, track: TRACK}}
  targetPorts: [{number: 8000}]
  endpointPickerRef: {name: picker, port: {number: 9002}}
`

// A route to a missing pool would fail every request for the canary.
func TestARouteToAnInferencePoolWaitsForThePoolOfTheCanary(t *testing.T) {
	t.Parallel()
	poolOf := func(name, track string) string {
		return strings.NewReplacer("NAME", name, "TRACK", track).Replace(pool)
	}
	s := aShopOf(t, "HTTPRoute", strings.NewReplacer("HOSTS", "", "KIND", "HTTPRoute",
		"RULES", `[{backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: web}]}]`,
		"labels: {app: web}}", "labels: {app: web, track: stable}}",
		"STEPS", byWeight+"\n      patchPodTemplateMetadata: {labels: {track: canary}}",
		"ROUTE", "gateway: {httpRouteName: web}").Replace(app)+poolOf("web", "stable"))
	s.release("web:2")
	r := s.await(world.HeldFor(rollout.ReasonRouteUnsupported))
	if want := "InferencePool web-canary, to which it would lead, does not exist"; !strings.Contains(r.Status.Message, want) {
		t.Errorf("it says %s", r.Status.Message)
	}
	if diff := cmp.Diff(s.before.Object["spec"], s.route().Object["spec"]); diff != "" {
		t.Errorf("the route (-before +now):\n%s", diff)
	}
	s.w.Apply(t, s.ns, poolOf("web-canary", "canary"))
	s.await(world.PausedAt(1))
	s.wantRules("[]: web 80, web-canary 20")
	s.release("web:1")
	s.await(world.Healthy)
	s.wantRestored(nil)
}
