package scenario

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/test/world"
)

// patchVersion changes the Deployment of the Istio walkthrough as its text does.
const patchVersion = `{"spec":{"template":{"spec":{"containers":[{"name":"nginx", "env":[{"name":"version", "value":"canary"}]}]}}}}`

func TestTheIstioWalkthroughEndsAsItsTextSays(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	ns := w.Namespace(t)
	for _, file := range []string{"workload.yaml", "virtualservice.yaml", "rollout.yaml"} {
		w.Apply(t, ns, world.Seed(t, "istio-walkthrough/"+file))
	}
	w.Await(t, ns, "rollouts-demo", world.Healthy)
	w.Do(t, "-n", ns, "rollout", "status", "deployment/workload-demo")
	before := w.Object(t, ns, "virtualservice", "vs-demo")

	w.Do(t, "-n", ns, "patch", "deployment", "workload-demo", "-p", patchVersion)
	for step, route := range []string{headerRoute, weightRoute(50), weightRoute(80)} {
		w.Await(t, ns, "rollouts-demo", world.PausedAt(int32(step+1)))
		vs := w.Object(t, ns, "virtualservice", "vs-demo")
		if diff := cmp.Diff(parse(t, route), vs.Object["spec"]); diff != "" {
			t.Errorf("step %d: VirtualService (-want +got):\n%s", step+1, diff)
		}
		want := strings.ReplaceAll(originalAnnotation, `\"namespace\":\"default\"`, `\"namespace\":\"`+ns+`\"`)
		if got := vs.GetAnnotations()["rollouts.kruise.io/original-spec-configuration"]; got != want {
			t.Errorf("step %d: original annotation:\n got %s\nwant %s", step+1, got, want)
		}
		pods := w.Do(t, "-n", ns, "get", "pods", "-l", "rollouts.kruise.io/rollout-id", "-o", `jsonpath={range .items[*]}{.metadata.labels.rollouts\.kruise\.io/rollout-batch-id} {end}`)
		if got, want := len(strings.Fields(pods)), step+1; got != want || !strings.Contains(pods, strconv.Itoa(step+1)) {
			t.Errorf("step %d: the pods tell these batches: %s", step+1, pods)
		}
		w.Approve(t, ns, "rollouts-demo")
	}

	w.Await(t, ns, "rollouts-demo", world.Healthy)
	after := w.Object(t, ns, "virtualservice", "vs-demo")
	if diff := cmp.Diff(before.Object["spec"], after.Object["spec"]); diff != "" {
		t.Errorf("restored VirtualService (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before.GetAnnotations(), after.GetAnnotations()); diff != "" {
		t.Errorf("annotations of the restored VirtualService (-before +after):\n%s", diff)
	}
	left := w.Do(t, "-n", ns, "get", "deployments,services", "-o", "name")
	if left != "deployment.apps/workload-demo\nservice/service-demo\n" {
		t.Errorf("objects left: %s", left)
	}
	if paused := w.Do(t, "-n", ns, "get", "deployment", "workload-demo", "-o", "jsonpath={.spec.paused}"); paused != "" {
		t.Errorf("paused is %q after the release", paused)
	}
}

func parse(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const headerRoute = `
gateways: [simple-gateway]
hosts: ['*']
http:
- match:
  - headers:
      version:
        exact: canary
  route:
  - destination:
      host: service-demo-canary
- route:
  - destination:
      host: service-demo
`

func weightRoute(canary int) string {
	text := `
gateways: [simple-gateway]
hosts: ['*']
http:
- route:
  - destination:
      host: service-demo
    weight: STABLE
  - destination:
      host: service-demo-canary
    weight: CANARY
`
	return strings.NewReplacer("STABLE", strconv.Itoa(100-canary), "CANARY", strconv.Itoa(canary)).Replace(text)
}

// originalAnnotation is the value that the walkthrough prints.
const originalAnnotation = `{"spec":{"gateways":["simple-gateway"],"hosts":["*"],"http":[{"route":[{"destination":{"host":"service-demo"}}]}]},"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"apiVersion\":\"networking.istio.io/v1beta1\",\"kind\":\"VirtualService\",\"metadata\":{\"annotations\":{},\"name\":\"vs-demo\",\"namespace\":\"default\"},\"spec\":{\"gateways\":[\"simple-gateway\"],\"hosts\":[\"*\"],\"http\":[{\"route\":[{\"destination\":{\"host\":\"service-demo\"}}]}]}}\n"}}`

func toJSON(t *testing.T, v any) string {
	t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
