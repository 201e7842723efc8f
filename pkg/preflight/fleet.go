package preflight

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/deploy"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
	"sluice.dev/sluice/pkg/workload"
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
		return []Finding{c.unreadFinding("policies", "Whether this cluster is the hub of a fleet", err)}
	case !hub:
		return nil
	}
	shipped, err := shippedRules(c.installation)
	if err != nil {
		return []Finding{c.unreadFinding("policies", "The policies of this program", err)}
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

// CheckFleetDelivery says what a user of a GitOps tool must know about the workloads and FleetRollouts that the tool delivers to this cluster. It warns of Rollouts whose
// spec.fleet names a FleetRollout that does not govern them. It lists Rollouts, FleetRollouts and workloads.
func (c *Cluster) CheckFleetDelivery(ctx context.Context) []Finding {
	const what = "The Rollouts of a fleet and who delivers them"
	rollouts, err := c.listRollouts(ctx)
	if err != nil {
		return []Finding{c.unreadFinding(checkFleet, what, err)}
	}
	var governed []api.Rollout
	var findings []Finding
	for _, r := range rollouts {
		of := r.Spec.Fleet
		if of == nil {
			continue
		}
		governed = append(governed, r)
		if of.Namespace != r.Namespace || of.Name != r.Name {
			findings = append(findings, Finding{
				Check: checkFleet, Level: LevelWarning, Message: fmt.Sprintf("Rollout %s/%s waits for ever: spec.fleet names FleetRollout %s, and only FleetRollout %[1]s/%[2]s governs it.", r.Namespace, r.Name, of),
				Remedy: "Correct spec.fleet: its namespace and name are those of the Rollout.",
			})
		}
	}
	delivered, err := c.deliveredWorkloads(ctx, governed)
	if err != nil {
		return append(findings, c.unreadFinding(checkFleet, what, err))
	}
	if len(delivered) > 0 {
		findings = append(findings, Finding{Check: checkFleet, Level: LevelOK, Message: fmt.Sprintf(
			"A tool delivers workloads of a fleet: %s. %s %s", joinShortened(delivered, maxNamed), fleet.TruthPodTemplate, fleet.TruthHeldDeployment)})
	}
	releases, err := c.listFleetRollouts(ctx)
	if err != nil {
		return append(findings, c.unreadFinding(checkFleet, what, err))
	}
	var applied []string
	for i := range releases {
		if pruner, _ := workload.PrunerOf(&releases[i]); pruner.Tool != "" {
			applied = append(applied, fmt.Sprintf("%s/%s (%s)", releases[i].Namespace, releases[i].Name, pruner.Tool))
		}
	}
	if len(applied) > 0 {
		findings = append(findings, Finding{Check: checkFleet, Level: LevelOK, Message: fmt.Sprintf(fleet.TruthRepository, "FleetRollouts "+joinShortened(applied, maxNamed))})
	}
	return findings
}

const checkFleet = "fleet"

// deliveredWorkloads names the workloads of Rollouts that a GitOps tool delivers, with the tool.
func (c *Cluster) deliveredWorkloads(ctx context.Context, rollouts []api.Rollout) ([]string, error) {
	var told []string
	for _, kind := range kindsOf(rollouts) {
		var list metav1.PartialObjectMetadataList
		if err := c.listAdopted(ctx, kind, metadataOnly, &list); err != nil {
			return nil, err
		}
		for i := range list.Items {
			w := &list.Items[i]
			mine := slices.ContainsFunc(rollouts, func(r api.Rollout) bool {
				ref := r.Spec.Workload()
				return r.Namespace == w.Namespace && ref.Name == w.Name && schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind) == kind
			})
			if pruner, _ := workload.PrunerOf(w); mine && pruner.Tool != "" {
				told = append(told, fmt.Sprintf("%s %s/%s (%s)", kind.Kind, w.Namespace, w.Name, pruner.Tool))
			}
		}
	}
	slices.Sort(told)
	return told, nil
}

// listFleetRollouts lists the metadata of all FleetRollouts, none if the API server does not serve the kind.
func (c *Cluster) listFleetRollouts(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	body, err := c.client.Discovery().RESTClient().Get().AbsPath("/apis/"+api.FleetGroupVersion().String()+"/"+api.FleetRolloutResource().Resource).SetHeader("Accept", metadataOnly).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list metav1.PartialObjectMetadataList
	err = json.Unmarshal(body, &list)
	return list.Items, err
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
		return []Finding{c.unreadFinding("policies", "ValidatingAdmissionPolicy "+name, err)}
	}
	if slices.Equal(want, rulesOf(policy)) {
		return found
	}
	return []Finding{{Check: "policies", Level: LevelWarning, Remedy: "Install the policies again: " + c.installPolicies(),
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
func shippedRules(in api.Installation) (map[string][]string, error) {
	manifests, err := deploy.Manifests(in, "policies")
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
