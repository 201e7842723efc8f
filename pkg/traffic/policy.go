package traffic

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/api"
)

// This file is about policies that are attached to a Service by its name, such as a DestinationRule. They say how a gateway sends requests to the Service:
// over TLS, over how many connections, to which zone. The canary Service has another name, so a release copies each policy for it. The first gateway
// object that leads to the Service owns the copies. A gateway must know the copies before the object leads to the canary.

// attachment is how a policy names its Service.
type attachment int

const (
	byHost      attachment = iota // the field spec.host holds a host name of the Service, as Istio writes it
	byTarget                      // the field spec.targetRef, or an entry of spec.targetRefs, is the Service (GEP-713)
	byReference                   // the field spec.targetReference is the Service
	byName                        // the policy has the name of the Service
)

// policyKind is a kind of policies that a release copies.
type policyKind struct {
	schema.GroupKind
	attached attachment
	// lessSecure compares the owner's policy of the canary Service with a copy of the stable Service's policy. It reports whether the gateway would send
	// requests in plain text by the first, and over TLS by the second. It is nil for kinds that say nothing about TLS.
	lessSecure func(copied, canary map[string]any) bool
}

func policyKinds() []policyKind {
	return []policyKind{
		{schema.GroupKind{Group: "networking.istio.io", Kind: "DestinationRule"}, byHost, plainByRule},
		{schema.GroupKind{Group: "gateway.networking.k8s.io", Kind: "BackendTLSPolicy"}, byTarget, plainBySection},
		{schema.GroupKind{Group: "gateway.networking.k8s.io", Kind: "BackendLBPolicy"}, byTarget, nil},
		{schema.GroupKind{Group: "gateway.networking.x-k8s.io", Kind: "XBackendTrafficPolicy"}, byTarget, nil},
		{schema.GroupKind{Group: "networking.gke.io", Kind: "GCPBackendPolicy"}, byTarget, nil},
		{schema.GroupKind{Group: "networking.gke.io", Kind: "GCPTrafficDistributionPolicy"}, byTarget, nil},
		{schema.GroupKind{Group: "networking.gke.io", Kind: "HealthCheckPolicy"}, byTarget, nil},
		{schema.GroupKind{Group: "alb.networking.azure.io", Kind: "BackendTLSPolicy"}, byTarget, plainBySection},
		{schema.GroupKind{Group: "alb.networking.azure.io", Kind: "BackendLoadBalancingPolicy"}, byTarget, nil},
		{schema.GroupKind{Group: "alb.networking.azure.io", Kind: "HealthCheckPolicy"}, byTarget, nil},
		{schema.GroupKind{Group: "gateway.k8s.aws", Kind: "TargetGroupConfiguration"}, byReference, plainBy(protocolsOf, "HTTPS", "TLS")},
		{schema.GroupKind{Group: "gateway.nginx.org", Kind: "UpstreamSettingsPolicy"}, byTarget, nil},
		{schema.GroupKind{Group: "gateway.kgateway.dev", Kind: "BackendConfigPolicy"}, byTarget, plainByTLS},
		{schema.GroupKind{Group: "apisix.apache.org", Kind: "BackendTrafficPolicy"}, byTarget, plainBy(schemesOf, "https", "grpcs")},
		{schema.GroupKind{Group: "apisix.apache.org", Kind: "ApisixUpstream"}, byName, plainBy(schemesOf, "https", "grpcs")},
	}
}

// PolicyKinds returns the kinds of policies that releases copy.
func PolicyKinds() []schema.GroupKind {
	var kinds []schema.GroupKind
	for _, kind := range policyKinds() {
		kinds = append(kinds, kind.GroupKind)
	}
	return kinds
}

// IsPolicyKind reports whether releases copy policies of a kind.
func IsPolicyKind(of schema.GroupKind) bool { return slices.Contains(PolicyKinds(), of) }

func policyKindOf(o *unstructured.Unstructured) (policyKind, bool) {
	for _, kind := range policyKinds() {
		if kind.GroupKind == o.GroupVersionKind().GroupKind() {
			return kind, true
		}
	}
	return policyKind{}, false
}

// PolicyTargets returns the names of the Services, in the namespace of a policy, that the policy is attached to.
func PolicyTargets(policy *unstructured.Unstructured) (services []string) {
	kind, is := policyKindOf(policy)
	if !is {
		return nil
	}
	spec, _ := policy.Object["spec"].(map[string]any)
	switch kind.attached {
	case byHost:
		service, _, _ := strings.Cut(firstString(spec, "host"), ".")
		if _, is := hostSuffix(firstString(spec, "host"), service, policy.GetNamespace()); is {
			services = append(services, service)
		}
	case byTarget:
		services = targetServices(policy)
	case byReference:
		if name := serviceOf(spec["targetReference"]); name != "" {
			services = append(services, name)
		}
	case byName:
		services = append(services, policy.GetName())
	}
	return services
}

// hostSuffix returns what follows the name of a Service in one of its host names: web, web.shop, web.shop.svc or web.shop.svc.cluster.local.
func hostSuffix(host, service, namespace string) (suffix string, is bool) {
	suffix, begins := strings.CutPrefix(host, service)
	own := "." + namespace
	return suffix, begins && service != "" && service != "*" &&
		(suffix == "" || suffix == own || suffix == own+".svc" || strings.HasPrefix(suffix, own+".svc."))
}

// serviceOf returns the name of the Service that a reference names; "" if it names another kind.
func serviceOf(ref any) string {
	r, _ := ref.(map[string]any)
	if group := firstString(r, "group"); group != "" && group != "core" || firstString(r, "kind") != "Service" && firstString(r, "kind") != "" {
		return ""
	}
	return firstString(r, "name")
}

// targetServices returns the Services that a policy names in spec.targetRef or spec.targetRefs.
func targetServices(policy *unstructured.Unstructured) (services []string) {
	for _, ref := range targetRefs(policy) {
		if name := serviceOf(ref); name != "" {
			services = append(services, name)
		}
	}
	return services
}

func targetRefs(policy *unstructured.Unstructured) []any {
	spec, _ := policy.Object["spec"].(map[string]any)
	refs, _ := spec["targetRefs"].([]any)
	return append([]any{spec["targetRef"]}, refs...)
}

// policiesFor returns the owner's policies that are attached to a Service.
func (p *Plan) policiesFor(service string) (found []*unstructured.Unstructured) {
	for _, o := range p.others {
		if o.GetLabels()[api.LabelRolloutUID] == "" && o.GetDeletionTimestamp() == nil && slices.Contains(PolicyTargets(o), service) {
			found = append(found, o)
		}
	}
	return found
}

// needsCopies reports whether a step needs copies, because it sends requests to the canary. Other steps leave copies unchanged: the gateway may still send
// requests by an earlier step. A step below 0 moves traffic back to the stable version, and must not wait.
func (e entry) needsCopies() bool { return e.routesToCanary() && e.Step >= 0 }

// policyCopies returns the desired copies of policies that a step needs for the canary Services.
func (p *Plan) policyCopies(step entry) ([]map[string]any, error) {
	if !step.needsCopies() {
		return nil, nil
	}
	var copies []map[string]any
	for _, part := range step.serviceEntries() {
		if !part.ownService() || !slices.Contains(p.rel.Carries, part.Service) {
			continue
		}
		policies, theirs := p.policiesFor(part.Service), p.policiesFor(part.CanaryService)
		if err := p.checkSingleRule(policies, part); err != nil {
			return nil, err
		}
		for _, policy := range policies {
			copied, err := p.copyFor(policy, part)
			if err != nil {
				return nil, err
			}
			own := slices.IndexFunc(theirs, func(o *unstructured.Unstructured) bool { return sameKind(o, policy) })
			if own < 0 {
				copies = append(copies, copied)
			} else if err := checkNotLessSecure(policy, copied, theirs[own], part); err != nil {
				return nil, err
			}
		}
	}
	return copies, nil
}

// checkSingleRule refuses several DestinationRules with traffic policies for one Service. Istio merges them in the order of their creation, and a copy is
// newer.
func (p *Plan) checkSingleRule(policies []*unstructured.Unstructured, e entry) error {
	var rules []string
	for _, policy := range policies {
		if kind, _ := policyKindOf(policy); kind.attached == byHost && hasTrafficPolicy(policy.Object) {
			rules = append(rules, policy.GetName())
		}
	}
	if len(rules) > 1 {
		return fmt.Errorf("the DestinationRules %s have traffic policies for Service %s, and a copy can have one; put them into one DestinationRule, or make one for Service %s",
			strings.Join(rules, " and "), e.Service, e.CanaryService)
	}
	return nil
}

// RoutesToCanary reports whether the last step that the executor wrote sends requests, or copies of requests, to the canary.
func (p *Plan) RoutesToCanary() bool {
	return p.on[p.rel.UID].routesToCanary() || len(p.UnreferencedChildren()) > 0
}

// DropsCopy reports whether a step deletes a copy whose policy is gone.
func (p *Plan) DropsCopy(step int32) bool {
	r, err := p.renderStep(step)
	return err == nil && slices.ContainsFunc(p.obsoleteChildren(r), func(o *unstructured.Unstructured) bool { return childRecordOf(o).Copied })
}

func sameKind(a, b *unstructured.Unstructured) bool {
	return a.GroupVersionKind().GroupKind() == b.GroupVersionKind().GroupKind()
}

// checkNotLessSecure refuses a step in which the gateway would send requests to the stable version over TLS, and requests to the canary in plain text. The
// owner's policy of the canary Service would cause that. copied is the copy of the stable policy that the release would create.
func checkNotLessSecure(stable *unstructured.Unstructured, copied map[string]any, canary *unstructured.Unstructured, e entry) error {
	kind, _ := policyKindOf(stable)
	if kind.lessSecure == nil || !kind.lessSecure(copied, canary.Object) {
		return nil
	}
	return fmt.Errorf("%s %s has requests to Service %s carried over TLS, and %s %s has those to Service %s carried in plain text; set the same TLS there, or delete it, and the release copies the first one",
		stable.GetKind(), stable.GetName(), e.Service, canary.GetKind(), canary.GetName(), e.CanaryService)
}

// copyFor returns a copy of a policy that is attached to the canary Service.
func (p *Plan) copyFor(policy *unstructured.Unstructured, e entry) (map[string]any, error) {
	kind, _ := policyKindOf(policy)
	spec, _ := toUnstructured(policy.Object["spec"]).(map[string]any)
	spec = maps.Clone(spec)
	name := e.CanaryService + "." + policy.GetName()
	switch kind.attached {
	case byHost:
		suffix, _ := hostSuffix(firstString(spec, "host"), e.Service, policy.GetNamespace())
		spec["host"] = e.CanaryService + suffix
		if err := foldSubsets(spec, p.subsetsOf(e)); err != nil {
			return nil, fmt.Errorf("%s %s: %w; make a DestinationRule for Service %s that says how its requests are carried", policy.GetKind(), policy.GetName(), err, e.CanaryService)
		}
	case byTarget:
		delete(spec, "targetSelectors")
		refs, _ := spec["targetRefs"].([]any)
		var of []any
		for _, ref := range refs {
			if serviceOf(ref) == e.Service {
				of = append(of, withServiceName(ref, e.CanaryService))
			}
		}
		if of != nil {
			spec["targetRefs"] = of
		}
		if serviceOf(spec["targetRef"]) == e.Service {
			spec["targetRef"] = withServiceName(spec["targetRef"], e.CanaryService)
		}
	case byReference:
		spec["targetReference"] = withServiceName(spec["targetReference"], e.CanaryService)
	case byName:
		name = e.CanaryService
	}
	copied := &unstructured.Unstructured{Object: map[string]any{"apiVersion": policy.GetAPIVersion(), "kind": policy.GetKind(), "spec": spec}}
	copied.SetName(name)
	copied.SetLabels(orNil(copyableMetadata(policy.GetLabels(), policy.GetAnnotations())))
	copied.SetAnnotations(orNil(copyableMetadata(policy.GetAnnotations(), policy.GetAnnotations())))
	return copied.Object, nil
}

// withServiceName returns a copy of a reference with another Service name.
func withServiceName(ref any, service string) map[string]any {
	r, _ := ref.(map[string]any)
	r = maps.Clone(r)
	r["name"] = service
	return r
}

// plainBySection compares policies that always ask for TLS. The policy of the canary must cover each port that the copy would cover.
func plainBySection(copied, canary map[string]any) bool {
	has := map[string]bool{}
	for _, section := range sectionNames(canary) {
		has[section] = true
	}
	return slices.ContainsFunc(sectionNames(copied), func(section string) bool { return !has[section] && !has[""] })
}

// sectionNames returns the names of the Service ports that a policy is attached to; "" stands for all ports of a Service.
func sectionNames(policy map[string]any) (names []string) {
	for _, ref := range targetRefs(&unstructured.Unstructured{Object: policy}) {
		if r, _ := ref.(map[string]any); serviceOf(ref) != "" {
			names = append(names, firstString(r, "sectionName"))
		}
	}
	return names
}

// plainByTLS compares policies that ask for TLS in a field spec.tls.
func plainByTLS(copied, canary map[string]any) bool {
	has := func(policy map[string]any) bool {
		_, has, _ := unstructured.NestedFieldNoCopy(policy, "spec", "tls")
		return has
	}
	return has(copied) && !has(canary)
}
