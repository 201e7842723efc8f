package traffic

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/sluice/pkg/rollout"
)

func service(t *testing.T, manifest string) *corev1.Service {
	t.Helper()
	svc := &corev1.Service{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object(t, manifest).Object, svc); err != nil {
		t.Fatalf("read Service: %v", err)
	}
	return svc
}

var params = CanaryServiceParams{Name: "web-canary", Key: "pod-template-hash", Hash: "abc", RolloutName: "shop", RolloutUID: "u", Epoch: 7, PatchLabels: map[string]string{"version": "canary", "extra": "x"}}

const owned = `, ownerReferences: [{apiVersion: v1, kind: Service, name: web, uid: s, controller: true, blockOwnerDeletion: false}]}`

func TestTheCanaryServiceIsACopyThatClaimsNothing(t *testing.T) {
	cases := map[string]struct{ stable, want string }{
		"a plain Service": {`
metadata: {name: web, namespace: shop, uid: s, resourceVersion: "5", labels: {app: web}, annotations: {note: hi}}
spec:
  type: ClusterIP
  clusterIP: 10.0.0.1
  clusterIPs: [10.0.0.1]
  ipFamilies: [IPv4]
  ipFamilyPolicy: SingleStack
  internalTrafficPolicy: Local
  sessionAffinity: ClientIP
  sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}
  selector: {app: web, pod-template-hash: old}
  ports: [{name: http, port: 80, targetPort: web, appProtocol: h2c}]`, `
metadata: {name: web-canary, namespace: shop, labels: {app: web, sluice.dev/rollout-uid: u}, annotations: {note: hi, sluice.dev/epoch: "7", sluice.dev/rollout: shop}` + owned + `
spec:
  type: ClusterIP
  internalTrafficPolicy: Local
  sessionAffinity: ClientIP
  sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}
  selector: {app: web, pod-template-hash: abc}
  ports: [{name: http, port: 80, targetPort: web, appProtocol: h2c}]`},
		"a load balancer with node ports, and a selector that the pods' patched labels change": {`
metadata: {name: web, namespace: shop, uid: s}
spec:
  type: LoadBalancer
  clusterIP: 10.0.0.1
  externalIPs: [1.2.3.4]
  loadBalancerIP: 1.2.3.4
  loadBalancerClass: cloud
  loadBalancerSourceRanges: [10.0.0.0/8]
  allocateLoadBalancerNodePorts: true
  externalTrafficPolicy: Local
  healthCheckNodePort: 30001
  selector: {app: web, version: base}
  ports: [{port: 80, nodePort: 30000, targetPort: 8080}]`, `
metadata: {name: web-canary, namespace: shop, labels: {sluice.dev/rollout-uid: u}, annotations: {sluice.dev/epoch: "7", sluice.dev/rollout: shop}` + owned + `
spec:
  type: ClusterIP
  selector: {app: web, version: canary, pod-template-hash: abc}
  ports: [{port: 80, targetPort: 8080}]`},
		"a headless Service under GitOps": {`
metadata:
  name: web
  namespace: shop
  uid: s
  labels: {app.kubernetes.io/instance: shop, app.kubernetes.io/name: web, kustomize.toolkit.fluxcd.io/name: x, helm.toolkit.fluxcd.io/name: x}
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: "{}"
    argocd.argoproj.io/sync-wave: "1"
    meta.helm.sh/release-name: x
    objectset.rio.cattle.io/id: x
    external-dns.alpha.kubernetes.io/hostname: web.example.com
spec: {clusterIP: None, clusterIPs: [None], selector: {app: web}, ports: [{port: 80}]}`, `
metadata: {name: web-canary, namespace: shop, labels: {app.kubernetes.io/name: web, sluice.dev/rollout-uid: u}, annotations: {sluice.dev/epoch: "7", sluice.dev/rollout: shop}` + owned + `
spec: {type: ClusterIP, clusterIP: None, selector: {app: web, pod-template-hash: abc}, ports: [{port: 80}]}`},
		"a Service whose annotations name a ServersTransport of Traefik": {`
metadata:
  name: web
  namespace: shop
  uid: s
  annotations:
    traefik.ingress.kubernetes.io/service.serverstransport: shop-mtls@kubernetescrd
    traefik.ingress.kubernetes.io/service.serversscheme: https
    traefik.ingress.kubernetes.io/service.passhostheader: "false"
spec: {selector: {app: web}, ports: [{port: 443}]}`, `
metadata:
  name: web-canary
  namespace: shop
  labels: {sluice.dev/rollout-uid: u}
  annotations:
    sluice.dev/epoch: "7"
    sluice.dev/rollout: shop
    traefik.ingress.kubernetes.io/service.serverstransport: shop-mtls@kubernetescrd
    traefik.ingress.kubernetes.io/service.serversscheme: https
    traefik.ingress.kubernetes.io/service.passhostheader: "false"
  ownerReferences: [{apiVersion: v1, kind: Service, name: web, uid: s, controller: true, blockOwnerDeletion: false}]
spec: {type: ClusterIP, selector: {app: web, pod-template-hash: abc}, ports: [{port: 443}]}`},
		"a Service that Argo CD tracks by annotation keeps its instance label": {`
metadata: {name: web, namespace: shop, uid: s, labels: {app.kubernetes.io/instance: shop}, annotations: {argocd.argoproj.io/tracking-id: x}}
spec: {selector: {app: web}}`, `
metadata: {name: web-canary, namespace: shop, labels: {app.kubernetes.io/instance: shop, sluice.dev/rollout-uid: u}, annotations: {sluice.dev/epoch: "7", sluice.dev/rollout: shop}` + owned + `
spec: {type: ClusterIP, selector: {app: web, pod-template-hash: abc}}`},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			stable := service(t, c.stable)
			seen := stable.DeepCopy()
			got, err := NewCanaryService(stable, params)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(service(t, "apiVersion: v1\nkind: Service"+c.want), got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(seen, stable); diff != "" {
				t.Errorf("the stable Service was changed (-before +after)\n%s", diff)
			}
		})
	}
}

func TestServicesThatSelectNoPodsHaveNoCanary(t *testing.T) {
	for want, manifest := range map[string]string{
		"Service web is of type ExternalName": `{metadata: {name: web}, spec: {type: ExternalName, externalName: example.com}}`,
		"Service web has no selector":         `{metadata: {name: web}, spec: {ports: [{port: 80}]}}`,
	} {
		if _, err := NewCanaryService(service(t, manifest), params); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error = %v, want %s...", err, want)
		}
	}
}

func TestWhatIsSeenOfAService(t *testing.T) {
	cases := map[string]struct {
		manifest string
		want     rollout.Service
	}{
		"a Service of a user":           {`{metadata: {uid: s}, spec: {selector: {app: web}}}`, rollout.Service{UID: "s"}},
		"a pinned one":                  {`{metadata: {uid: s}, spec: {selector: {pod-template-hash: abc}}}`, rollout.Service{UID: "s", Hash: "abc"}},
		"one pinned by the other label": {`{metadata: {uid: s}, spec: {selector: {controller-revision-hash: web-1}}}`, rollout.Service{UID: "s", Hash: "web-1"}},
		"one of ours": {`{metadata: {uid: s, labels: {sluice.dev/rollout-uid: u}, annotations: {sluice.dev/epoch: "7"}}, spec: {selector: {pod-template-hash: abc}}}`,
			rollout.Service{UID: "s", Ours: true, Hash: "abc", Epoch: 7}},
		"one of another Rollout, going": {`{metadata: {uid: s, labels: {sluice.dev/rollout-uid: other}, deletionTimestamp: "2026-11-20T10:00:00Z"}}`,
			rollout.Service{UID: "s", Deleting: true}},
		"one of a dead Rollout of the same name": {`{metadata: {uid: s, labels: {sluice.dev/rollout-uid: dead}, annotations: {sluice.dev/rollout: shop}}}`,
			rollout.Service{UID: "s", Ours: true}},
	}
	for what, c := range cases {
		if diff := cmp.Diff(c.want, ObserveService(service(t, c.manifest), "shop", "u")); diff != "" {
			t.Errorf("%s (-want +got)\n%s", what, diff)
		}
	}
}

func TestPatchesOfServicesCarryWhatWasSeen(t *testing.T) {
	svc := service(t, `{metadata: {name: web, resourceVersion: "5"}}`)
	other := service(t, `{metadata: {name: web, resourceVersion: "5"}, spec: {selector: {pod-template-hash: abc}}}`)
	const key = "controller-revision-hash"
	for want, patch := range map[string]map[string]any{
		`{"metadata":{"resourceVersion":"5"},"spec":{"selector":{"pod-template-hash":"abc"}}}`:                                             PinService(svc, "pod-template-hash", "abc"),
		`{"metadata":{"resourceVersion":"5"},"spec":{"selector":{"controller-revision-hash":"web-1"}}}`:                                    PinService(svc, key, "web-1"),
		`{"metadata":{"resourceVersion":"5"},"spec":{"selector":{"controller-revision-hash":"web-1","pod-template-hash":null}}}`:           PinService(other, key, "web-1"),
		`{"metadata":{"resourceVersion":"5"},"spec":{"selector":{"controller-revision-hash":null,"pod-template-hash":null}}}`:              UnpinService(svc),
		`{"metadata":{"annotations":{"sluice.dev/epoch":"8"},"resourceVersion":"5"},"spec":{"selector":{"pod-template-hash":"abc"}}}`:      PointCanaryService(svc, "pod-template-hash", "abc", 8),
		`{"metadata":{"annotations":{"sluice.dev/epoch":"8"},"resourceVersion":"5"},"spec":{"selector":{"controller-revision-hash":"b"}}}`: PointCanaryService(svc, key, "b", 8),
	} {
		if diff := cmp.Diff(want, jsonOf(patch)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func TestACanaryServiceSelectsByTheLabelOfItsWorkload(t *testing.T) {
	of := params
	of.Key = "controller-revision-hash"
	got, err := NewCanaryService(service(t, `{metadata: {name: web}, spec: {selector: {app: web, pod-template-hash: old}}}`), of)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"app": "web", "controller-revision-hash": "abc"}, got.Spec.Selector); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
