package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/workload"
)

// LetGo takes the marks of a Rollout that no longer exists off the workloads that still carry them, and ends their hold: somebody
// took our finalizer off by force, and without this the workload's next change would be held for ever. It reports how many there
// were.
func (c *Client) LetGo(ctx context.Context, gone types.NamespacedName) (int, error) {
	list, err := within(ctx, func(ctx context.Context) (*appsv1.DeploymentList, error) {
		return c.apps.Deployments(gone.Namespace).List(ctx, metav1.ListOptions{LabelSelector: api.LabelWorkloadType})
	})
	if err != nil {
		return 0, fmt.Errorf("look for workloads of Rollout %s, which is gone: %w", gone, err)
	}
	var count int
	for i := range list.Items {
		d := &list.Items[i]
		if d.Annotations[api.AnnotationRollout] != gone.Name {
			continue
		}
		body, err := json.Marshal(workload.Disown(d))
		if err != nil {
			return count, fmt.Errorf("let go of Deployment %s: %w", d.Name, err)
		}
		_, err = within(ctx, func(ctx context.Context) (*appsv1.Deployment, error) {
			return c.apps.Deployments(gone.Namespace).Patch(ctx, d.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager})
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return count, fmt.Errorf("let go of Deployment %s: %w", d.Name, err)
		}
		count++
	}
	return count, nil
}
