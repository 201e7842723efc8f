package scenario

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

const onALB = "alb.ingress.kubernetes.io/"

// Two applications behind one load balancer are released at the same time by header. The test applies the manifests of
// the seed in its own namespaces. In the second one, the steps after the first go on by themselves.
func TestTwoApplicationsBehindOneALBAreReleasedAtOnce(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	ns := w.Namespace(t)
	for _, file := range []string{"workload", "ingress", "rollout", "rollout-clone"} {
		w.Apply(t, ns, strings.ReplaceAll(world.Seed(t, "004/"+file+".yaml"), "namespace: foo", "namespace: "+ns))
	}
	apps := map[string]string{"rollout-with-traffic": "echoserver", "clone": "echoserver-clone"}
	var before [2]*unstructured.Unstructured
	for i, name := range []string{"rollout-with-traffic", "clone"} {
		w.Await(t, ns, name, world.Healthy)
		w.Available(t, ns, apps[name])
		w.AwaitObject(t, ns, "deployment", apps[name], "to be adopted", func(u *unstructured.Unstructured) bool { return u.GetAnnotations()[api.AnnotationRollout] == name })
		before[i] = w.Get(t, ns, "ingress", apps[name])
	}
	for _, app := range apps {
		if err := w.Patch(t, ns, "deployment", app, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"echoserver:2"}]}}}}`); err != nil {
			t.Fatal(err)
		}
	}
	w.Await(t, ns, "rollout-with-traffic", world.PausedAt(1))
	w.Await(t, ns, "clone", world.PausedAt(1))
	taken := map[int]bool{}
	order := func(name string, want map[string]string) {
		t.Helper()
		u := w.Get(t, ns, "ingress", name)
		if u == nil {
			t.Fatalf("there is no Ingress %s", name)
		}
		got := map[string]string{}
		for key, value := range u.GetAnnotations() {
			if short, is := strings.CutPrefix(key, onALB); is && short != "order" {
				got[short] = value
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Ingress %s (-want +got):\n%s", name, diff)
		}
		n, err := strconv.Atoi(u.GetAnnotations()[onALB+"order"])
		if err != nil || n < 1 || n >= 10 || taken[n] {
			t.Errorf("Ingress %s has the order %q; 10 is that of the stable rule, and %v are taken", name, u.GetAnnotations()[onALB+"order"], taken)
		}
		taken[n] = true
	}
	order("echoserver-canary", map[string]string{"canary": "true", "canary-weight": "5"})
	order("echoserver-clone-canary", map[string]string{"canary": "true", "canary-weight": "5"})

	w.Approve(t, ns, "rollout-with-traffic")
	w.Await(t, ns, "rollout-with-traffic", world.PausedAt(2))
	clear(taken)
	order("echoserver-canary", map[string]string{"canary": "true", "canary-by-header": "user-agent", "canary-by-header-value": "pc"})
	order("echoserver-clone-canary", map[string]string{"canary": "true", "canary-weight": "5"})
	w.Approve(t, ns, "rollout-with-traffic")
	w.Await(t, ns, "rollout-with-traffic", world.PausedAt(3))
	clear(taken)
	order("echoserver-canary", map[string]string{"canary": "true", "canary-by-header": "user-agent", "canary-by-header-value": "mobile"})
	order("echoserver-clone-canary", map[string]string{"canary": "true", "canary-weight": "5"})

	w.Approve(t, ns, "clone") // from here it goes on by itself to its end
	w.Approve(t, ns, "rollout-with-traffic")
	for i, name := range []string{"rollout-with-traffic", "clone"} {
		w.Await(t, ns, name, world.Healthy)
		if u := w.Get(t, ns, "ingress", apps[name]+"-canary"); u != nil {
			t.Errorf("Ingress %s is left", u.GetName())
		}
		if got := w.Get(t, ns, "ingress", apps[name]); got.GetResourceVersion() != before[i].GetResourceVersion() {
			t.Errorf("Ingress %s was written", apps[name])
		}
	}
}
