package gateway

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

const ingressApp = pods + `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: web
  labels: {team: shop, app.kubernetes.io/instance: shop}
  annotations: {ANNOTATIONSkubectl.kubernetes.io/last-applied-configuration: "{}", helm.toolkit.fluxcd.io/name: shop, nginx.ingress.kubernetes.io/rewrite-target: /}
spec:
  ingressClassName: edge
  tls: [{hosts: [web.example.com], secretName: web}]
  rules: RULES
---
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy:
    canary:
      enableExtraWorkloadForCanary: true
      steps: STEPS
      trafficRoutings: [{service: web, gracePeriodSeconds: 0, ingress: {name: web, classType: CLASS}}]
`

// ingressRules have all variants of a rule of an Ingress: no paths, other Services, a backend other than a Service.
const ingressRules = `[{host: empty.example.com}, {host: web.example.com, http: {paths: [
    {path: /, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}},
    {path: /api, pathType: Exact, backend: {service: {name: api, port: {number: 80}}}},
    {path: /files, pathType: Prefix, backend: {resource: {apiGroup: example.com, kind: Bucket, name: files}}}]}}]`

func anIngressShop(t *testing.T, class, annotations, rules, steps string) *shop {
	t.Helper()
	return aShopOf(t, "Ingress", strings.NewReplacer("ANNOTATIONS", annotations, "RULES", rules, "STEPS", steps, "CLASS", class).Replace(ingressApp))
}

// canaryAnnotations checks the annotations of a canary Ingress. It leaves out the annotations of Sluice.
func (s *shop) canaryAnnotations(name string, want map[string]string) {
	s.Helper()
	u := s.w.Get(s.T, s.ns, "ingress", name)
	if u == nil {
		s.Fatalf("there is no Ingress %s", name)
	}
	got := map[string]string{}
	for key, value := range u.GetAnnotations() {
		if key != api.AnnotationReleases && key != api.AnnotationRendered {
			got[key] = value
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("the annotations of Ingress %s (-want +got):\n%s", name, diff)
	}
}

func (s *shop) noIngress(name string) {
	s.Helper()
	s.w.AwaitObject(s.T, s.ns, "ingress", name, "to be gone", func(u *unstructured.Unstructured) bool { return u == nil })
}

// The executor never writes the Ingress itself. The canary Ingress has its paths to the Service, and no mark that would
// make a GitOps tool claim it. The additions of its controller stay. The executor restores the fields that a user
// removes.
func TestAnIngressIsRoutedByACanaryIngress(t *testing.T) {
	t.Parallel()
	const steps = `[{replicas: 50%, traffic: 20%}, {replicas: 50%, matches: [{headers: [{name: user, value: "^b", type: RegularExpression}]}]}, {replicas: 50%, traffic: 30%, matches: [{headers: [{name: user, value: beta}]}]}]`
	s := anIngressShop(t, "nginx", "", ingressRules, steps)
	const nginx = "nginx.ingress.kubernetes.io/"
	s.release("web:2")
	s.await(world.PausedAt(1))
	s.canaryAnnotations("web-canary", map[string]string{nginx + "rewrite-target": "/", nginx + "canary": "true", nginx + "canary-weight": "20"})
	canary := s.w.Get(t, s.ns, "ingress", "web-canary")
	if diff := cmp.Diff(map[string]string{"team": "shop", api.LabelRolloutUID: s.uid()}, canary.GetLabels()); diff != "" {
		t.Errorf("its labels (-want +got):\n%s", diff)
	}
	path := map[string]any{"path": "/", "pathType": "Prefix", "backend": map[string]any{"service": map[string]any{"name": "web-canary", "port": map[string]any{"name": "http"}}}}
	want := map[string]any{"ingressClassName": "edge", "tls": []any{map[string]any{"hosts": []any{"web.example.com"}, "secretName": "web"}},
		"rules": []any{map[string]any{"host": "web.example.com", "http": map[string]any{"paths": []any{path}}}}}
	if diff := cmp.Diff(want, canary.Object["spec"]); diff != "" {
		t.Errorf("its spec (-want +got):\n%s", diff)
	}

	if err := s.w.Patch(t, s.ns, "ingress", "web-canary", `{"metadata":{"annotations":{"example.com/seen":"yes","`+nginx+`canary-weight":"90"}}}`); err != nil {
		t.Fatal(err)
	}
	s.w.AwaitObject(t, s.ns, "ingress", "web-canary", "to have its weight back", func(u *unstructured.Unstructured) bool {
		return u != nil && u.GetAnnotations()[nginx+"canary-weight"] == "20"
	})
	s.w.Approve(t, s.ns, "web")
	s.await(world.PausedAt(2))
	s.canaryAnnotations("web-canary", map[string]string{nginx + "rewrite-target": "/", nginx + "canary": "true", nginx + "canary-by-header": "user",
		nginx + "canary-by-header-pattern": "^b", "example.com/seen": "yes"})
	if err := s.w.Client(t, s.ns, "ingress").Delete(t.Context(), "web-canary", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.w.AwaitObject(t, s.ns, "ingress", "web-canary", "to come back", func(u *unstructured.Unstructured) bool { return u != nil })
	s.w.Approve(t, s.ns, "web")
	s.await(world.PausedAt(3))
	s.canaryAnnotations("web-canary", map[string]string{nginx + "rewrite-target": "/", nginx + "canary": "true", nginx + "canary-by-header": "user",
		nginx + "canary-by-header-value": "beta", nginx + "canary-weight": "30"})
	s.w.Approve(t, s.ns, "web")
	s.await(world.Healthy)
	s.noIngress("web-canary")
	s.wantRestored(nil)
	if got := s.route().GetResourceVersion(); got != s.before.GetResourceVersion() {
		t.Error("the Ingress was written")
	}
}

// A controller that does not read the annotations of the script would treat the canary Ingress as another one of the
// host. So the executor creates no object of the release. A later change of the class counts.
func TestAnIngressOfAnotherControllerIsRefused(t *testing.T) {
	t.Parallel()
	const class = "of-another-controller"
	s := aShopOf(t, "Ingress", strings.NewReplacer("ingressClassName: edge", "ingressClassName: "+class,
		"ANNOTATIONS", "", "RULES", ingressRules, "STEPS", byWeight, ", classType: CLASS", "").Replace(ingressApp))
	of := func(controller string) {
		t.Helper()
		s.w.Apply(t, s.ns, fmt.Sprintf(`{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: %s}, spec: {controller: %s}}`, class, controller))
	}
	of("ingress.k8s.aws/alb")
	s.release("web:2")
	r := s.await(world.HeldFor(rollout.ReasonRouteUnsupported))
	const says = "Ingress web cannot carry out step 1: its class is " + class + ", of the AWS Load Balancer Controller, and not of ingress-nginx, Higress, MSE, " +
		"for which the script writes; use an HTTPRoute of the AWS Load Balancer Controller"
	if !strings.Contains(r.Status.Message, says) {
		t.Errorf("it says %s", r.Status.Message)
	}
	s.noIngress("web-canary")
	if s.w.Get(t, s.ns, "deployment", "web-canary") != nil {
		t.Error("there is a canary")
	}
	s.w.Do(t, "delete", "ingressclass", class)
	of("k8s.io/ingress-nginx")
	s.await(world.PausedAt(1))
	if s.w.Get(t, s.ns, "ingress", "web-canary") == nil {
		t.Error("there is no canary Ingress")
	}
	s.w.Do(t, "delete", "ingressclass", class)
}

// An Ingress of that name may belong to another user: it stays as it is.
func TestACanaryIngressTakesNobodysName(t *testing.T) {
	t.Parallel()
	s := anIngressShop(t, "nginx", "", ingressRules, byWeight)
	s.w.Apply(t, s.ns, strings.ReplaceAll(`{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web-canary}, spec: {rules: RULES}}`, "RULES", ingressRules))
	s.release("web:2")
	s.await(world.PausedAt(1))
	if u := s.w.Get(t, s.ns, "ingress", "web-web-canary"); u == nil {
		t.Error("there is no Ingress web-web-canary")
	}
	s.release("web:1")
	s.await(world.Healthy)
	s.noIngress("web-web-canary")
	if u := s.w.Get(t, s.ns, "ingress", "web-canary"); u == nil || len(u.GetAnnotations()) > 1 {
		t.Error("the other Ingress was changed")
	}
}

// The executor reports a step that an Ingress cannot express before any object of the release exists.
func TestAStepThatAnIngressCannotExpressChangesNothing(t *testing.T) {
	t.Parallel()
	const header = `[{replicas: 50%, matches: [{headers: [{name: user, value: beta}, {name: stage, value: one}]}]}]`
	for name, c := range map[string]struct{ class, annotations, rules, steps, says string }{
		"two headers":           {"nginx", "", ingressRules, header, "Ingress web cannot carry out step 1: matches[0]: it takes one condition; use an HTTPRoute"},
		"header and weight":     {"higress", "", ingressRules, `[{replicas: 50%, traffic: 20%, matches: [{headers: [{name: user, value: beta}]}]}]`, "it cannot have matches and a share of the traffic in one step"},
		"a default backend":     {"nginx", "", `[{host: empty.example.com}]`, byWeight, "no path of it leads to Service web"},
		"a class of no script":  {"bfe", "", ingressRules, byWeight, "No script for the Ingress class bfe"},
		"nothing comes before":  {"aliyun-alb", `alb.ingress.kubernetes.io/order: "1", `, ingressRules, byWeight, "Ingress web has the order 1, and its canary needs a lower one"},
		"an order of no number": {"aliyun-alb", `alb.ingress.kubernetes.io/order: first, `, ingressRules, byWeight, `the annotation alb.ingress.kubernetes.io/order of Ingress web is "first"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := anIngressShop(t, c.class, c.annotations, c.rules, c.steps)
			s.release("web:2")
			s.await(func(r *api.Rollout) bool { return strings.Contains(r.Status.Message, c.says) })
			for _, left := range []struct{ kind, name string }{{"deployment", "web-canary"}, {"service", "web-canary"}, {"ingress", "web-canary"}} {
				if s.w.Get(t, s.ns, left.kind, left.name) != nil {
					t.Errorf("there is a %s %s", left.kind, left.name)
				}
			}
		})
	}
}

const albOrder = "alb.ingress.kubernetes.io/order"

// Twenty releases begin at the same time, with three executors. Canary Ingresses and Ingresses of users get different
// orders, and each canary comes before its own Ingress. In the end no release holds an order.
func TestOrdersOfALoadBalancerAreUnique(t *testing.T) {
	t.Parallel()
	w := world.ForTest(t, world.Options{})
	for range 2 {
		w.Begin(t, w.Executor)
	}
	const many = 20
	shops := make([]*shop, many)
	var all sync.WaitGroup
	each := func(do func(i int, s *shop)) {
		for i, s := range shops {
			all.Go(func() { do(i, s) })
		}
		all.Wait()
	}
	for i := range shops {
		s := &shop{T: t, w: w, ns: fmt.Sprintf("alb-%d", i), kind: "ingress"}
		w.Do(t, "create", "namespace", s.ns)
		const steps = `[{replicas: 50%, traffic: 20%, matches: [{headers: [{name: user, value: beta}]}]}]`
		w.Apply(t, s.ns, strings.NewReplacer("ANNOTATIONS", fmt.Sprintf("%s: %q, ", albOrder, strconv.Itoa(100+i)), "RULES", ingressRules, "STEPS", steps, "CLASS", "aliyun-alb").Replace(ingressApp))
		shops[i] = s
	}
	for _, s := range shops {
		s.ready()
	}
	each(func(_ int, s *shop) { s.release("web:2") })
	each(func(_ int, s *shop) { s.await(world.PausedAt(1)) })

	owners := map[string]string{}
	for i, s := range shops {
		last := 0
		for _, name := range []string{"web-canary", "web-canary-weight", "web"} { // the header before the weight, both before the user's own
			order := w.Get(t, s.ns, "ingress", name).GetAnnotations()[albOrder]
			if other, taken := owners[order]; taken {
				t.Errorf("Ingress %s of %s has the order %s of %s", name, s.ns, order, other)
			}
			owners[order] = s.ns + "/" + name
			n, err := strconv.Atoi(order)
			if err != nil || n <= last {
				t.Errorf("Ingress %s of %s has the order %q, which is not after %d", name, s.ns, order, last)
			}
			last = n
		}
		if last != 100+i {
			t.Errorf("the order of the user's Ingress of %s is %d", s.ns, last)
		}
	}
	each(func(i int, s *shop) {
		if i%2 == 0 {
			s.release("web:1")
		} else {
			w.Approve(t, s.ns, "web")
		}
		s.await(world.Healthy)
	})
	held := w.Get(t, api.DefaultNamespace, "configmap", "sluice-orders-edge")
	if data, _, _ := unstructured.NestedMap(held.Object, "data"); len(data) > 0 {
		t.Errorf("in the end some have an order: %v", data)
	}
	for _, s := range shops {
		for _, u := range s.ingresses() {
			if u != "web" {
				t.Errorf("Ingress %s of %s is left", u, s.ns)
			}
		}
	}
}

func (s *shop) ingresses() (names []string) {
	s.Helper()
	list, err := s.w.Client(s.T, s.ns, "ingress").List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for _, u := range list.Items {
		names = append(names, u.GetName())
	}
	slices.Sort(names)
	return names
}

func (s *shop) uid() string {
	s.Helper()
	return string(s.await(func(*api.Rollout) bool { return true }).UID)
}
