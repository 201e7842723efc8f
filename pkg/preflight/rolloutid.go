package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/api"
)

// maxNamed is how many objects a finding names.
const maxNamed = 5

// metadataOnly has the API server leave out spec and status of what it lists.
const metadataOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

// CheckRolloutIDs looks for adopted workloads whose rollout-id lets another pod template roll out without a step. It lists all Rollouts and the
// kinds of their workloads, which an executor may not.
func (c *Cluster) CheckRolloutIDs(ctx context.Context) []Finding {
	const check, what = "rollout-ids", "Which rollout-ids let a change through"
	kinds, err := c.workloadKinds(ctx)
	if err != nil {
		return []Finding{c.unreadFinding(check, what, err)}
	}
	var named []string
	for _, kind := range kinds {
		var list metav1.PartialObjectMetadataList
		if err := c.listAdopted(ctx, kind, metadataOnly, &list); err != nil {
			return []Finding{c.unreadFinding(check, what, err)}
		}
		for _, o := range list.Items {
			if api.RolloutIDLetsThrough(&o) {
				named = append(named, fmt.Sprintf("%s %s/%s (%s)", kind.Kind, o.Namespace, o.Name, api.RolloutID(&o)))
			}
		}
	}
	if len(named) == 0 {
		return nil
	}
	slices.Sort(named)
	return []Finding{{
		Check: check, Level: LevelWarning,
		Message: "A change of the pod template rolls out without a step while the annotation " + api.AnnotationRolloutID +
			" has the value of the stable version, which is OpenKruise's rule. It does so for " + joinShortened(named, maxNamed) + ".",
		Remedy: "Give each version a rollout-id of its own, or take the annotation off: kubectl annotate KIND NAME -n NAMESPACE " + api.AnnotationRolloutID + "-",
	}}
}

// workloadKinds are the kinds of the workloads that Rollouts name.
func (c *Cluster) workloadKinds(ctx context.Context) (kinds []schema.GroupVersionKind, err error) {
	rollouts, err := c.listRollouts(ctx)
	return kindsOf(rollouts), err
}

// listRollouts are all Rollouts of the cluster.
func (c *Cluster) listRollouts(ctx context.Context) ([]api.Rollout, error) {
	body, err := c.client.Discovery().RESTClient().Get().AbsPath("/apis", api.Group, api.V1beta1, "rollouts").Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var list api.RolloutList
	err = json.Unmarshal(body, &list)
	return list.Items, err
}

func kindsOf(rollouts []api.Rollout) (kinds []schema.GroupVersionKind) {
	for _, r := range rollouts {
		ref := r.Spec.Workload()
		if ref == nil {
			continue
		}
		if kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// listAdopted lists the adopted workloads of a kind in the form that accept names, and decodes the list. It leaves into as it is if the API server does
// not serve the kind.
func (c *Cluster) listAdopted(ctx context.Context, kind schema.GroupVersionKind, accept string, into any) error {
	path, err := c.pathOf(kind)
	if path == "" || err != nil {
		return err
	}
	body, err := c.client.Discovery().RESTClient().Get().AbsPath(path).Param("labelSelector", api.LabelWorkloadType).SetHeader("Accept", accept).Do(ctx).Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// pathOf is the path of the objects of a kind in all namespaces, "" if the API server does not serve the kind.
func (c *Cluster) pathOf(kind schema.GroupVersionKind) (string, error) {
	version := kind.GroupVersion().String()
	served, err := c.client.Discovery().ServerResourcesForGroupVersion(version)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind.Kind && !strings.Contains(r.Name, "/") })
	if i < 0 {
		return "", nil
	}
	return "/apis/" + version + "/" + served.APIResources[i].Name, nil
}
