package preflight

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/deploy"
	"sluice.dev/sluice/pkg/api"
)

// fleetPolicies are the policies of a hub, each with the consequence if it is missing.
var fleetPolicies = []struct{ name, without string }{
	{"sluice-validate-fleet", "who may patch a FleetRollout may give each command, in any name, and use each FleetPlan"},
	{"sluice-validate-fleettarget", "who may write a FleetTarget may permit each version in its cluster"},
}

// CheckFleetPolicies looks whether the policies of a hub are there, bound, and those of this version. A cluster without FleetRollouts and FleetMembers is no hub.
func (c *Cluster) CheckFleetPolicies(ctx context.Context) []Finding {
	hub, err := c.hasAny(ctx, api.FleetRolloutResource().Resource, api.FleetMemberResource().Resource)
	switch {
	case err != nil:
		return []Finding{unreadFinding("policies", "Whether this cluster is the hub of a fleet", err)}
	case !hub:
		return nil
	}
	shipped, err := shippedRules()
	if err != nil {
		return []Finding{unreadFinding("policies", "The policies of this program", err)}
	}
	validating := c.validatingPolicies()
	var findings []Finding
	for _, policy := range fleetPolicies {
		found := validating.checkPolicies(ctx, []string{policy.name}, policy.without)
		if len(findingsAt(LevelOK, found)) == len(found) {
			found = c.checkRules(ctx, policy.name, shipped[policy.name], found)
		}
		findings = append(findings, found...)
	}
	return findings
}

// hasAny reports whether there is an object of one of these kinds of a fleet.
func (c *Cluster) hasAny(ctx context.Context, resources ...string) (bool, error) {
	for _, resource := range resources {
		path := "/apis/" + api.FleetGroupVersion().String() + "/" + resource
		body, err := c.client.Discovery().RESTClient().Get().AbsPath(path).Param("limit", "1").SetHeader("Accept", "application/json").Do(ctx).Raw()
		if apierrors.IsNotFound(err) {
			continue // the kind is not served
		}
		if err != nil {
			return false, err
		}
		var list metav1.PartialObjectMetadataList
		if err := yaml.Unmarshal(body, &list); err != nil {
			return false, fmt.Errorf("read list of %s: %w", resource, err)
		}
		if len(list.Items) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// checkRules returns a warning if the rules of an installed policy are not those of this version, and else the findings so far.
func (c *Cluster) checkRules(ctx context.Context, name string, want []string, found []Finding) []Finding {
	policy, err := c.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return []Finding{unreadFinding("policies", "ValidatingAdmissionPolicy "+name, err)}
	}
	if slices.Equal(want, rulesOf(policy)) {
		return found
	}
	return []Finding{{Check: "policies", Level: LevelWarning, Remedy: "Install the policies again: " + installPolicies,
		Message: fmt.Sprintf("ValidatingAdmissionPolicy %s has other rules than this version of Sluice.", name)}}
}

func rulesOf(policy *admissionv1.ValidatingAdmissionPolicy) []string {
	var rules []string
	for _, v := range policy.Spec.Variables {
		rules = append(rules, v.Name+": "+v.Expression)
	}
	for _, v := range policy.Spec.Validations {
		rules = append(rules, v.Expression)
	}
	return rules
}

// shippedRules returns the rules of the policies that this version installs, by the name of the policy.
func shippedRules() (map[string][]string, error) {
	manifests, err := deploy.Manifests("policies")
	if err != nil {
		return nil, err
	}
	rules := map[string][]string{}
	for document := range bytes.SplitSeq(manifests, []byte("\n---\n")) {
		var policy admissionv1.ValidatingAdmissionPolicy
		if err := yaml.Unmarshal(document, &policy); err != nil {
			return nil, err
		}
		if policy.Kind == "ValidatingAdmissionPolicy" {
			rules[policy.Name] = rulesOf(&policy)
		}
	}
	return rules, nil
}
