package traffic

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// This file finds the settings with which a gateway keeps a user on one pod of a Service. Some gateways pick a version for each request. In a step with a
// share of the traffic, such a gateway sends the user to both versions, and each time to another pod.

// StickyBy returns the setting that keeps users on one pod of a Service, as in "consistentHash of DestinationRule tuned"; "" without such a setting. live
// is a gateway object that leads to the Service, and policies are the policies of its namespace.
func StickyBy(live *unstructured.Unstructured, policies []*unstructured.Unstructured, service string) string {
	if field := sessionPersistence(live.Object["spec"], service, live.GetNamespace()); field != "" {
		return field + " of " + live.GetKind() + " " + live.GetName()
	}
	for _, key := range stickyAnnotations() {
		value := live.GetAnnotations()[key]
		if live.GetKind() == "Ingress" && value != "" && value != "false" {
			return fmt.Sprintf("the annotation %s of Ingress %s", key, live.GetName())
		}
	}
	for _, p := range policies {
		if slices.Contains(PolicyTargets(p), service) {
			if field := stickyField(p.Object["spec"]); field != "" {
				return field + " of " + p.GetKind() + " " + p.GetName()
			}
		}
	}
	return ""
}

// stickyAnnotations returns the annotations with which Ingress controllers keep users on one pod.
func stickyAnnotations() []string {
	return []string{"nginx.ingress.kubernetes.io/affinity", "higress.io/affinity", "mse.ingress.kubernetes.io/affinity", "alb.ingress.kubernetes.io/sticky-session"}
}

// sessionPersistence returns the field of a rule of an HTTPRoute or GRPCRoute that keeps users on one pod of a Service; "" for none.
func sessionPersistence(spec any, service, namespace string) string {
	s, _ := spec.(map[string]any)
	rules, _ := s["rules"].([]any)
	for _, r := range rules {
		if rule, _ := r.(map[string]any); rule["sessionPersistence"] != nil && MentionsService(rule["backendRefs"], service, namespace) {
			return "sessionPersistence"
		}
	}
	return ""
}

// stickyField returns the field of a policy that keeps users on one pod, at any depth of the policy; "" for none.
func stickyField(spec any) string {
	switch v := spec.(type) {
	case map[string]any:
		switch {
		case v["consistentHash"] != nil: // of Istio
			return "consistentHash"
		case v["sessionPersistence"] != nil: // of the Gateway API
			return "sessionPersistence"
		case v["type"] == "chash": // of APISIX
			return "chash"
		case v["key"] == "stickiness.enabled" && v["value"] == "true": // of AWS
			return "stickiness.enabled"
		case firstString(v, "loadBalancingMethod") == "ip_hash", strings.HasPrefix(firstString(v, "loadBalancingMethod"), "hash"): // of NGINX Gateway Fabric
			return "loadBalancingMethod"
		}
		for _, hash := range []string{"ringHash", "maglev"} { // of kgateway; without policies Envoy picks pods at random
			if of, _ := v[hash].(map[string]any); of["hashPolicies"] != nil {
				return hash
			}
		}
		if affinity, is := v["sessionAffinity"].(map[string]any); is && !strings.EqualFold(cmp.Or(firstString(affinity, "type"), "none"), "none") { // of GKE
			return "sessionAffinity"
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if field := stickyField(v[key]); field != "" {
				return field
			}
		}
	case []any:
		for _, e := range v {
			if field := stickyField(e); field != "" {
				return field
			}
		}
	}
	return ""
}
