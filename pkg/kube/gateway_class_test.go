package kube_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/planner"
	"sluice.dev/sluice/pkg/rollout"
)

const ingress = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec: {rules: [{host: web.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}`

// The class of an Ingress may be the default class of the cluster, or stand in the annotation that preceded
// spec.ingressClassName. While another controller serves that class, the release creates nothing. The test runs alone,
// because a default class affects all namespaces.
func TestAnIngressWithoutAClassNameIsReleasedByItsControllerOnly(t *testing.T) {
	for name, c := range map[string]struct {
		// ingress and class are the metadata of the Ingress and of its class.
		ingress, class, says string
	}{
		"the default class of the cluster": {"name: web", `name: CLASS, annotations: {ingressclass.kubernetes.io/is-default-class: "true"}`,
			"it has no class, and the default class of the cluster is CLASS, of the AWS Load Balancer Controller, and not of ingress-nginx"},
		"the old annotation": {`name: web, annotations: {kubernetes.io/ingress.class: CLASS}`, "name: CLASS",
			"its class is CLASS, of the AWS Load Balancer Controller, and not of ingress-nginx"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			named := strings.NewReplacer("CLASS", w.namespace).Replace
			of := func(controller string) {
				t.Helper()
				w.kubectl("", "delete", "ingressclass", w.namespace, "--ignore-not-found")
				w.apply(named(fmt.Sprintf(`{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {%s}, spec: {controller: %s}}`, c.class, controller)))
			}
			t.Cleanup(func() {
				if _, err := plane.Kubectl(context.WithoutCancel(t.Context()), "delete", "ingressclass", w.namespace, "--ignore-not-found"); err != nil {
					t.Error(err)
				}
			})
			w.apply(deployment, service, named(strings.Replace(ingress, "name: web", c.ingress, 1)), // before a default class exists, which the API server would write into it
				strings.Replace(canaryRollout, "customNetworkRefs: [{apiVersion: networking.istio.io/v1, kind: VirtualService, name: web}]", "ingress: {name: web}", 1))
			of("ingress.k8s.aws/alb")
			w.kubectl("", "wait", "deployment/web", "--for=condition=Available", "--timeout=600s")
			w.adopted()
			w.kubectl("", "patch", "deployment", "web", "--type=strategic", "-p", heldImage("2"))
			if got := w.held(rollout.ReasonRouteUnsupported); !strings.Contains(got, named(c.says)) {
				t.Errorf("it says %s", got)
			}
			if diff := cmp.Diff("deployment.apps/web\nservice/web\ningress.networking.k8s.io/web", w.kubectl("", "get", "deployments,services,ingresses", "-o", "name")); diff != "" {
				t.Errorf("while the release is held (-want +got):\n%s", diff)
			}

			of("k8s.io/ingress-nginx")
			w.drive("web", rollout.StatePaused)
			if diff := cmp.Diff(w.namespace, w.get("ingress/web-canary", `{.spec.ingressClassName}{.metadata.annotations.kubernetes\.io/ingress\.class}`)); diff != "" {
				t.Errorf("the class of the canary Ingress (-want +got):\n%s", diff)
			}
		})
	}
}

// held runs the release as an executor does until it is held, and returns the message of the Rollout.
func (w *world) held(reason api.Reason) string {
	w.t.Helper()
	var said string
	w.eventually("the release is held as "+string(reason), func() bool {
		s := w.observe("web")
		d := planner.Plan(s.Seen, time.Now())
		if err := w.step(s, d); err != nil && !outdated(err) {
			w.t.Fatal(err)
		}
		for _, c := range d.Status.Conditions {
			if c.Type == api.ConditionStalled && c.Reason == reason {
				said = d.Status.Message
			}
		}
		return said != ""
	})
	return said
}
