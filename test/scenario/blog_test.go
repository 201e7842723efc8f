package scenario

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/test/world"
)

const patchConfigMap = `{"spec":{"template":{"spec":{"volumes":[{"name":"html-volume","configMap":{"name":"nginx-configmap-canary"}}]}}}}`

func TestTheBlogWalkthroughSharesOneServiceAndLabelsItsPods(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	ns := w.Namespace(t)
	for _, file := range []string{"workload.yaml", "gateway.yaml", "rollout.yaml"} {
		w.Apply(t, ns, world.Seed(t, "istio-blog/"+file))
	}
	w.Await(t, ns, "rollouts-demo", world.Healthy)
	w.Do(t, "-n", ns, "rollout", "status", "deployment/nginx-deployment")

	w.Do(t, "-n", ns, "patch", "deployment", "nginx-deployment", "-p", patchConfigMap)
	w.Await(t, ns, "rollouts-demo", world.PausedAt(1))
	wantSpec(t, w, ns, "virtualservice", "nginx-vs", `
hosts: ['*']
gateways: [nginx-gateway]
http:
- route:
  - destination: {host: nginx-service, subset: version-base}
    weight: 80
  - destination: {host: nginx-service, subset: canary}
    weight: 20
`)
	wantSpec(t, w, ns, "destinationrule", "nginx-dr", `
host: nginx-service
subsets:
- labels: {version: base}
  name: version-base
- labels: {version: canary}
  name: canary
`)
	if pods := w.Do(t, "-n", ns, "get", "pods", "-l", "version=canary", "-o", "name"); pods == "" {
		t.Error("no pod carries the label version=canary")
	}
	if services := w.Do(t, "-n", ns, "get", "services", "-o", "name"); services != "service/nginx-service\n" {
		t.Errorf("services are %q, though none was to be made", services)
	}

	w.Approve(t, ns, "rollouts-demo")
	w.Await(t, ns, "rollouts-demo", world.PausedAt(2))
	wantSpec(t, w, ns, "virtualservice", "nginx-vs", `
hosts: ['*']
gateways: [nginx-gateway]
http:
- match:
  - headers: {version: {exact: canary}}
  route:
  - destination: {host: nginx-service, subset: canary}
- route:
  - destination: {host: nginx-service, subset: version-base}
`)

	w.Approve(t, ns, "rollouts-demo")
	w.Await(t, ns, "rollouts-demo", world.Healthy)
	wantSpec(t, w, ns, "virtualservice", "nginx-vs", `
hosts: ['*']
gateways: [nginx-gateway]
http:
- route:
  - destination: {host: nginx-service, subset: version-base}
`)
	wantSpec(t, w, ns, "destinationrule", "nginx-dr", `
host: nginx-service
subsets:
- labels: {version: base}
  name: version-base
`)
	if left := w.Do(t, "-n", ns, "get", "deployments", "-o", "name"); left != "deployment.apps/nginx-deployment\n" {
		t.Errorf("deployments left: %s", left)
	}
}

// wantSpec compares the spec of an object with the spec in a document.
func wantSpec(t *testing.T, w *world.World, ns, kind, name, want string) {
	t.Helper()
	if diff := cmp.Diff(parse(t, want), w.Object(t, ns, kind, name).Object["spec"]); diff != "" {
		t.Errorf("%s %s (-want +got):\n%s", kind, name, diff)
	}
}
