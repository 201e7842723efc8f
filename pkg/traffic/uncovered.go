package traffic

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/rollout"
)

// This file is about policies that a release does not copy. If such a policy covers only the stable version, the two versions differ. They may differ in
// their allowed clients, in the requests that the proxy retries, or in the metrics that Prometheus collects.

// Coverage is the set of things that policies must cover: a stable Service, its canary Service and the pods of both.
type Coverage struct {
	Stable        *corev1.Service
	CanaryService string
	// PodLabels are the labels of the pod template. PatchLabels are the labels that the canary's pods have instead.
	PodLabels, PatchLabels map[string]string
	// Copied are the routes whose rules a step with matches copies.
	Copied []rollout.Ref
}

// CoverageOf returns the coverage that a Service of a release needs. podLabels are the labels of the pod template.
func CoverageOf(stable *corev1.Service, routing rollout.Routing, spec rollout.Spec, podLabels map[string]string) Coverage {
	of := Coverage{Stable: stable, CanaryService: routing.CanaryService, PodLabels: podLabels, PatchLabels: spec.PatchLabels}
	if slices.ContainsFunc(spec.Steps, func(step rollout.Step) bool { return len(step.Matches) > 0 }) {
		of.Copied = routing.Objects
	}
	return of
}

// gap says how a policy covers the stable version and not the canary; "" if it covers both, or neither.
type gap func(policy *unstructured.Unstructured, of Coverage) string

// uncopiedKinds are the kinds of policies that a release does not copy.
func uncopiedKinds() map[schema.GroupKind][]gap {
	kinds := map[schema.GroupKind][]gap{
		{Group: "security.istio.io", Kind: "PeerAuthentication"}:       {podsGap},
		{Group: "linkerd.io", Kind: "ServiceProfile"}:                  {hostGap},
		{Group: "cilium.io", Kind: "CiliumEnvoyConfig"}:                {servicesGap},
		{Group: "monitoring.coreos.com", Kind: "ServiceMonitor"}:       {selectorGap, relabelingsGap},
		{Group: "gateway.kgateway.dev", Kind: "TrafficPolicy"}:         {ruleGap},
		{Group: "gateway.envoyproxy.io", Kind: "BackendTrafficPolicy"}: {ruleGap},
		{Group: "gateway.envoyproxy.io", Kind: "EnvoyExtensionPolicy"}: {ruleGap},
		{Group: "gateway.envoyproxy.io", Kind: "SecurityPolicy"}:       {ruleGap},
	}
	for _, of := range []schema.GroupKind{{Group: "security.istio.io", Kind: "AuthorizationPolicy"}, {Group: "security.istio.io", Kind: "RequestAuthentication"},
		{Group: "telemetry.istio.io", Kind: "Telemetry"}, {Group: "extensions.istio.io", Kind: "WasmPlugin"}} {
		kinds[of] = []gap{targetGap, podsGap}
	}
	return kinds
}

// UncopiedKinds returns the kinds of policies that a release reports and does not copy.
func UncopiedKinds() []schema.GroupKind {
	return slices.SortedFunc(maps.Keys(uncopiedKinds()), func(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) })
}

// DescribeUncovered returns a sentence for each policy that covers the stable version and not the canary. An example is "AuthorizationPolicy web names
// Service web and not Service web-canary". All policies have one kind. A policy is left out if another one covers the canary with the same spec.action.
func DescribeUncovered(policies []*unstructured.Unstructured, of Coverage) (told []string) {
	turned, kinds := of.swapVersions(), uncopiedKinds()
	for _, policy := range policies {
		for _, gap := range kinds[policy.GroupVersionKind().GroupKind()] {
			how := gap(policy, of)
			paired := slices.ContainsFunc(policies, func(other *unstructured.Unstructured) bool {
				return gap(other, turned) != "" && stringAt(other.Object, "spec", "action") == stringAt(policy.Object, "spec", "action")
			})
			if how != "" && !paired {
				told = append(told, fmt.Sprintf("%s %s %s", policy.GetKind(), policy.GetName(), how))
			}
		}
	}
	return told
}

// swapVersions exchanges the canary and the stable version.
func (of Coverage) swapVersions() Coverage {
	canary := of.Stable.DeepCopy()
	canary.Name, canary.Labels = of.CanaryService, copyableMetadata(of.Stable.Labels, of.Stable.Annotations)
	pods, patch := maps.Clone(of.PodLabels), map[string]string{}
	for key, value := range of.PatchLabels {
		if pods == nil {
			pods = map[string]string{}
		}
		pods[key], patch[key] = value, of.PodLabels[key]
	}
	return Coverage{Stable: canary, CanaryService: of.Stable.Name, PodLabels: pods, PatchLabels: patch}
}

func namesStableOnly(of Coverage) string {
	return fmt.Sprintf("names Service %s and not Service %s", of.Stable.Name, of.CanaryService)
}

// targetGap checks policies of a waypoint, which name a Service.
func targetGap(policy *unstructured.Unstructured, of Coverage) string {
	if !slices.Contains(targetServices(policy), of.Stable.Name) {
		return ""
	}
	return namesStableOnly(of)
}

// hostGap checks policies whose own name is a host name of the Service.
func hostGap(policy *unstructured.Unstructured, of Coverage) string {
	if _, is := hostSuffix(policy.GetName(), of.Stable.Name, of.Stable.Namespace); !is {
		return ""
	}
	return namesStableOnly(of)
}

// servicesGap checks policies that list Services.
func servicesGap(policy *unstructured.Unstructured, of Coverage) string {
	listed, _, _ := unstructured.NestedSlice(policy.Object, "spec", "services")
	lists := func(name string) bool {
		return slices.ContainsFunc(listed, func(s any) bool {
			service, _ := s.(map[string]any)
			namespace := firstString(service, "namespace")
			return firstString(service, "name") == name && (namespace == "" || namespace == of.Stable.Namespace)
		})
	}
	if !lists(of.Stable.Name) || lists(of.CanaryService) {
		return ""
	}
	return namesStableOnly(of)
}

// podsGap checks policies that select pods by labels. The canary's pods may have other values of these labels.
func podsGap(policy *unstructured.Unstructured, of Coverage) string {
	selected, _, _ := unstructured.NestedStringMap(policy.Object, "spec", "selector", "matchLabels")
	if len(selected) == 0 || !labels.SelectorFromSet(selected).Matches(labels.Set(of.PodLabels)) {
		return ""
	}
	for _, key := range sortedKeys(selected) {
		if value, patched := of.PatchLabels[key]; patched && value != selected[key] {
			return fmt.Sprintf("selects pods by the label %s=%s, and the pods of the canary have %s=%s", key, selected[key], key, value)
		}
	}
	return ""
}

// ruleGap checks policies of one rule of a route. A step with matches copies the rule without its name.
func ruleGap(policy *unstructured.Unstructured, of Coverage) string {
	for _, target := range targetRefs(policy) {
		ref, _ := target.(map[string]any)
		rule := firstString(ref, "sectionName")
		copied := slices.ContainsFunc(of.Copied, func(r rollout.Ref) bool {
			return r.Kind == firstString(ref, "kind") && r.Name == firstString(ref, "name")
		})
		if rule != "" && copied {
			return fmt.Sprintf("covers the rule %s of %s %s, and not the copy of it that leads requests with matches to the canary; attach it to the whole route",
				rule, firstString(ref, "kind"), firstString(ref, "name"))
		}
	}
	return ""
}

// selectorGap checks a ServiceMonitor that selects by a label that the canary Service does not have.
func selectorGap(policy *unstructured.Unstructured, of Coverage) string {
	var selector metav1.LabelSelector
	raw, _, _ := unstructured.NestedMap(policy.Object, "spec", "selector")
	if runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &selector) != nil {
		return ""
	}
	by, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil || !by.Matches(labels.Set(of.Stable.Labels)) || by.Matches(labels.Set(copyableMetadata(of.Stable.Labels, of.Stable.Annotations))) {
		return ""
	}
	return fmt.Sprintf("selects Service %s and not Service %s, which does not get all of its labels", of.Stable.Name, of.CanaryService)
}

// serviceNameLabel is the label with the name of a Service that Prometheus sets before relabeling.
const serviceNameLabel = "__meta_kubernetes_service_name"

// relabelingsGap checks a ServiceMonitor that keeps or drops targets by the name of their Service.
func relabelingsGap(policy *unstructured.Unstructured, of Coverage) string {
	endpoints, _, _ := unstructured.NestedSlice(policy.Object, "spec", "endpoints")
	for _, e := range endpoints {
		endpoint, _ := e.(map[string]any)
		all, _ := endpoint["relabelings"].([]any)
		for _, r := range all {
			relabeling, _ := r.(map[string]any)
			sources, _ := relabeling["sourceLabels"].([]any)
			if len(sources) != 1 || sources[0] != serviceNameLabel {
				continue
			}
			pattern, err := regexp.Compile("^(?:" + firstString(relabeling, "regex") + ")$")
			if err != nil {
				continue
			}
			stable, canary := pattern.MatchString(of.Stable.Name), pattern.MatchString(of.CanaryService)
			switch strings.ToLower(firstString(relabeling, "action")) {
			case "keep":
			case "drop":
				stable, canary = !stable, !canary
			default:
				continue
			}
			if stable && !canary {
				return fmt.Sprintf("keeps targets of Service %s and not of Service %s", of.Stable.Name, of.CanaryService)
			}
		}
	}
	return ""
}
