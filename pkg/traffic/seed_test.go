package traffic

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

const demoManifest = `
apiVersion: networking.istio.io/v1beta1
kind: VirtualService
metadata: {annotations: {}, name: vs-demo, namespace: default}
spec:
  gateways: [simple-gateway]
  hosts: ["*"]
  http:
  - route:
    - destination: {host: service-demo}
`

// demoOriginal is the text that users of OpenKruise Rollouts see and compare.
const demoOriginal = `{"spec":{"gateways":["simple-gateway"],"hosts":["*"],"http":[{"route":[{"destination":{"host":"service-demo"}}]}]},"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"apiVersion\":\"networking.istio.io/v1beta1\",\"kind\":\"VirtualService\",\"metadata\":{\"annotations\":{},\"name\":\"vs-demo\",\"namespace\":\"default\"},\"spec\":{\"gateways\":[\"simple-gateway\"],\"hosts\":[\"*\"],\"http\":[{\"route\":[{\"destination\":{\"host\":\"service-demo\"}}]}]}}\n"}}`

func demoGateway(t *testing.T) *gateway {
	g := &gateway{
		t: t, run: builtin(t, "VirtualService"), live: object(t, "{}"),
		ref: rollout.Ref{APIVersion: "networking.istio.io/v1alpha3", Kind: "VirtualService", Name: "vs-demo"},
	}
	g.apply(object(t, demoManifest))
	return g
}

var demo = Release{UID: "u-demo", Namespace: "default", Name: "rollouts-demo", Epoch: 1, Service: "service-demo", CanaryService: "service-demo-canary"}

func TestTheIstioWalkthroughShowsTheDocumentedObjects(t *testing.T) {
	g := demoGateway(t)
	before := g.live.DeepCopy()
	steps := []struct {
		strategy Strategy
		http     string
	}{
		{header("version", "canary"), `
  gateways: [simple-gateway]
  hosts: ['*']
  http:
  - match:
    - headers: {version: {exact: canary}}
      ignoreUriCase: false
    route:
    - destination: {host: service-demo-canary}
  - route:
    - destination: {host: service-demo}`},
		{weight(50), `
  gateways: [simple-gateway]
  hosts: ['*']
  http:
  - route:
    - destination: {host: service-demo}
      weight: 50
    - destination: {host: service-demo-canary}
      weight: 50`},
		{weight(80), `
  gateways: [simple-gateway]
  hosts: ['*']
  http:
  - route:
    - destination: {host: service-demo}
      weight: 20
    - destination: {host: service-demo-canary}
      weight: 80`},
	}
	for i, step := range steps {
		g.step(demo, step.strategy)
		if diff := cmp.Diff(specOf(t, step.http), g.live.Object["spec"]); diff != "" {
			t.Errorf("step %d: (-want +got)\n%s", i+1, diff)
		}
		if diff := cmp.Diff(demoOriginal, g.live.GetAnnotations()[api.AnnotationOriginalSpec]); diff != "" {
			t.Errorf("step %d: original annotation (-want +got)\n%s", i+1, diff)
		}
	}
	g.restore(demo)
	if diff := cmp.Diff(before.Object, g.live.Object); diff != "" {
		t.Errorf("restored (-want +got)\n%s", diff)
	}
}

var shared = Release{
	UID: "u-nginx", Namespace: "default", Name: "rollouts-demo", Epoch: 1, Service: "nginx-service", CanaryService: "nginx-service",
	PatchLabels: map[string]string{"version": "canary"},
}

const sharedVirtualService = `
apiVersion: networking.istio.io/v1alpha3
kind: VirtualService
metadata: {name: nginx-vs, namespace: default}
spec:
  hosts: ["*"]
  gateways: [nginx-gateway]
  http:
  - route:
    - destination: {host: nginx-service, subset: version-base}
`

const sharedDestinationRule = `
apiVersion: networking.istio.io/v1beta1
kind: DestinationRule
metadata: {name: nginx-dr, namespace: default}
spec:
  host: nginx-service
  trafficPolicy: {loadBalancer: {simple: ROUND_ROBIN}}
  subsets:
  - name: version-base
    labels: {version: base}
`

// blogScript is the script that the walkthrough prints for DestinationRules.
const blogScript = `
local spec = obj.data.spec
local canary = {}
canary.labels = {}
canary.name = "canary"
for k, v in pairs(obj.patchPodMetadata.labels) do
  canary.labels[k] = v
end
table.insert(spec.subsets, canary)
return obj.data
`

func TestReleasesThatShareOneServiceRouteBySubset(t *testing.T) {
	vs := &gateway{t: t, run: builtin(t, "VirtualService"), live: object(t, sharedVirtualService)}
	rule := func(run Script) *gateway { return &gateway{t: t, run: run, live: object(t, sharedDestinationRule)} }
	builtinRule, blogRule := rule(builtin(t, "DestinationRule")), rule(compiled(t, "blog", blogScript))
	all := []*gateway{builtinRule, blogRule, vs}
	subsets := `
  host: nginx-service
  trafficPolicy: {loadBalancer: {simple: ROUND_ROBIN}}
  subsets:
  - name: version-base
    labels: {version: base}
  - name: canary
    labels: {version: canary}`
	steps := []struct {
		strategy Strategy
		spec     string
	}{
		{weight(20), `
  hosts: ["*"]
  gateways: [nginx-gateway]
  http:
  - route:
    - destination: {host: nginx-service, subset: version-base}
      weight: 80
    - destination: {host: nginx-service, subset: canary}
      weight: 20`},
		{header("version", "canary"), `
  hosts: ["*"]
  gateways: [nginx-gateway]
  http:
  - match:
    - headers: {version: {exact: canary}}
      ignoreUriCase: false
    route:
    - destination: {host: nginx-service, subset: canary}
  - route:
    - destination: {host: nginx-service, subset: version-base}`},
	}
	for i, step := range steps {
		want := []any{specOf(t, subsets), specOf(t, subsets), specOf(t, step.spec)}
		for j, g := range all {
			g.step(shared, step.strategy)
			if diff := cmp.Diff(want[j], g.live.Object["spec"]); diff != "" {
				t.Errorf("step %d, object %d: (-want +got)\n%s", i+1, j, diff)
			}
		}
	}
	for j, manifest := range []string{sharedDestinationRule, sharedDestinationRule, sharedVirtualService} {
		all[j].restore(shared)
		if diff := cmp.Diff(object(t, manifest).Object, all[j].live.Object); diff != "" {
			t.Errorf("restored object %d (-want +got)\n%s", j, diff)
		}
	}
}
