package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/traffic"
)

// CheckUncoveredCanaries looks for policies that cover the stable version of a Rollout, and that will not cover its canary. It lists Rollouts, their workloads and such
// policies in all namespaces.
func (c *Cluster) CheckUncoveredCanaries(ctx context.Context) []Finding {
	const check, what = "canary-policies", "Which policies do not cover a canary"
	told, err := c.describeUncovered(ctx)
	if err != nil {
		return []Finding{c.unreadFinding(check, what, err)}
	}
	if len(told) == 0 {
		return nil
	}
	slices.Sort(told)
	told = slices.Compact(told)
	return []Finding{{
		Check: check, Level: LevelWarning,
		Message: "Policies cover the stable version and not the canary, which goes without them during a release: " + joinShortened(told, maxNamed) + ".",
		Remedy:  "Have each of them cover both: let it name both Services, or select by labels that both versions have.",
	}}
}

func (c *Cluster) describeUncovered(ctx context.Context) (told []string, err error) {
	policies, err := c.uncopiedPolicies(ctx)
	if err != nil || len(policies) == 0 {
		return nil, err
	}
	rollouts, err := c.listRollouts(ctx)
	if err != nil {
		return nil, err
	}
	podLabels, err := c.podLabels(ctx, rollouts)
	if err != nil {
		return nil, err
	}
	for _, r := range rollouts {
		spec, err := rollout.Parse(&r)
		if err != nil {
			continue // `kubectl describe rollout` tells
		}
		for _, routing := range spec.Routing {
			if !routing.SeparateService() {
				continue
			}
			stable, err := c.client.CoreV1().Services(r.Namespace).Get(ctx, routing.Service, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			of := traffic.CoverageOf(stable, routing, spec, podLabels[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}])
			for _, kind := range traffic.UncopiedKinds() {
				for _, how := range traffic.DescribeUncovered(policies[policiesOf{kind, r.Namespace}], of) {
					told = append(told, fmt.Sprintf("%s (Rollout %s/%s)", how, r.Namespace, r.Name))
				}
			}
		}
	}
	return told, nil
}

// policiesOf are the policies of a kind in a namespace.
type policiesOf struct {
	schema.GroupKind
	namespace string
}

func (c *Cluster) uncopiedPolicies(ctx context.Context) (map[policiesOf][]*unstructured.Unstructured, error) {
	groups, err := c.client.Discovery().ServerGroups()
	if err != nil {
		return nil, err
	}
	found := map[policiesOf][]*unstructured.Unstructured{}
	for _, kind := range traffic.UncopiedKinds() {
		at := slices.IndexFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == kind.Group })
		if at < 0 {
			continue
		}
		path, err := c.pathOf(kind.WithVersion(groups.Groups[at].PreferredVersion.Version))
		if err != nil {
			return nil, err
		}
		if path == "" {
			continue
		}
		body, err := c.client.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).Raw()
		if err != nil {
			return nil, err
		}
		var list unstructured.UnstructuredList
		if err := json.Unmarshal(body, &list); err != nil {
			return nil, err
		}
		for i := range list.Items {
			of := policiesOf{kind, list.Items[i].GetNamespace()}
			found[of] = append(found[of], &list.Items[i])
		}
	}
	return found, nil
}

// podLabels are the labels of the pod templates of adopted workloads, by their Rollouts.
func (c *Cluster) podLabels(ctx context.Context, rollouts []api.Rollout) (map[types.NamespacedName]map[string]string, error) {
	found := map[types.NamespacedName]map[string]string{}
	for _, kind := range kindsOf(rollouts) {
		var list struct{ Items []templated }
		if err := c.listAdopted(ctx, kind, "application/json", &list); err != nil {
			return nil, err
		}
		for _, w := range list.Items {
			found[types.NamespacedName{Namespace: w.Namespace, Name: w.Annotations[api.AnnotationRollout]}] = w.Spec.Template.Labels
		}
	}
	return found, nil
}
