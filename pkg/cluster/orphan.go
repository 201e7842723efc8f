package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/workload"
)

// reasonOrphaned is the reason of the Event on a workload whose Rollout was removed during its release.
const reasonOrphaned = "RolloutRemovedByForce"

// LetGo takes the marks of a Rollout that no longer exists off the workloads that still carry them: somebody took our finalizer off
// by force, and without this the workload's next change would be held for ever. It reports how many there were. A workload in the
// middle of a release stays held: the stable Service may still be pinned to pods that letting go would take away, and routes may
// lead to a canary. An Event on it says what to do. Where nothing is held, what was made for releases of that Rollout goes as well.
func (c *Client) LetGo(ctx context.Context, gone types.NamespacedName) (int, error) {
	list, err := within(ctx, func(ctx context.Context) (*appsv1.DeploymentList, error) {
		return c.apps.Deployments(gone.Namespace).List(ctx, metav1.ListOptions{LabelSelector: api.LabelWorkloadType})
	})
	if err != nil {
		return 0, fmt.Errorf("look for workloads of Rollout %s, which is gone: %w", gone, err)
	}
	var count, kept int
	for i := range list.Items {
		d := &list.Items[i]
		if d.Annotations[api.AnnotationRollout] != gone.Name {
			continue
		}
		if _, held := d.Annotations[api.AnnotationInProgressing]; held {
			c.orphaned(gone, d)
			kept++
			continue
		}
		if err := c.disown(ctx, d); err != nil {
			return count, err
		}
		count++
	}
	if kept > 0 {
		return count, nil
	}
	return count, c.tidy(ctx, gone)
}

func (c *Client) disown(ctx context.Context, d *appsv1.Deployment) error {
	body, err := json.Marshal(workload.Disown(d))
	if err != nil {
		return fmt.Errorf("let go of Deployment %s: %w", d.Name, err)
	}
	_, err = within(ctx, func(ctx context.Context) (*appsv1.Deployment, error) {
		return c.apps.Deployments(d.Namespace).Patch(ctx, d.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager})
	})
	if err != nil && !isNotFound(err) {
		return fmt.Errorf("let go of Deployment %s: %w", d.Name, err)
	}
	return nil
}

// orphaned tells what to do about a workload that stays held.
func (c *Client) orphaned(gone types.NamespacedName, d *appsv1.Deployment) {
	c.log.Warn("a Rollout was removed by force during its release; its workload stays held, create the Rollout again",
		"namespace", gone.Namespace, "rollout", gone.Name, "deployment", d.Name)
	note := fmt.Sprintf("Rollout %[1]s was removed by force during its release. Deployment %[2]s stays paused, because Services and routes may still send "+
		"traffic to what that release made. Create Rollout %[1]s again: it takes over what is left and releases the version anew. "+
		"To be rid of it, delete it then with kubectl delete rollout %[1]s -n %[3]s, and leave its finalizer alone.", gone.Name, d.Name, gone.Namespace)
	c.record(eventOn(corev1.ObjectReference{
		APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment", Namespace: d.Namespace, Name: d.Name, UID: d.UID,
	}, 0, true, reasonOrphaned, note, time.Now()))
}
