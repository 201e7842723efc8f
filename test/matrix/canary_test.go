package matrix

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const untoldScale = "the executor has already scaled the workload down to that number, so it cannot see that the owner asks for the same number"

// canaryRouted is canary style with a VirtualService. The new version has a second Deployment, and the route has
// weights.
func canaryRouted() column {
	c := canaryPlain()
	c.name, c.traffic, c.routed, c.attached = "canary-routed", "VirtualService, DestinationRule", true, true
	return c
}

// canaryMatched is canary style as an A/B test: a header selects the requests for the new version, and the route has no
// weights.
func canaryMatched() column {
	c := canaryRouted()
	c.name, c.strategy, c.traffic, c.matched = "canary-matched", "canary style, A/B", "VirtualService, by `matches`", true
	return c
}

// canaryPlain is canary style without traffic routing: the Service spreads the traffic over the pods of both Deployments.
func canaryPlain() column {
	return column{
		name: "canary-plain", strategy: "canary style", workload: "Deployment", traffic: "none",
		resource: deployments(), kind: "Deployment", style: "canary", options: "      enableExtraWorkloadForCanary: true\n",
		beside: true, settled: deploymentSettled, total: deploymentTotal, ready: deploymentReady,
	}
}

// canaryConstant is canary style with constant capacity and without traffic routing. The executor scales the stable
// Deployment down as the canary grows.
func canaryConstant() column {
	c := canaryPlain()
	c.name, c.strategy, c.constant = "canary-constant", "canary style, `capacity: Constant`", true
	c.options += "      capacity: Constant\n"
	c.except = map[string]string{
		"scaled down @ paused at step 2": untoldScale,
	}
	return c
}

func deployments() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
}

func deploymentSettled(u *unstructured.Unstructured) bool {
	want := number(u, "spec", "replicas")
	return number(u, "status", "observedGeneration") == u.GetGeneration() && number(u, "status", "updatedReplicas") == want &&
		number(u, "status", "availableReplicas") == want && number(u, "status", "replicas") == want
}

func deploymentTotal(u *unstructured.Unstructured) int64 { return number(u, "status", "replicas") }

func deploymentReady(u *unstructured.Unstructured) int64 { return number(u, "status", "readyReplicas") }

func number(u *unstructured.Unstructured, fields ...string) int64 {
	n, _, _ := unstructured.NestedInt64(u.Object, fields...)
	return n
}
