package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
)

// leftover is something that was made for a release.
type leftover struct {
	resource string
	object   metav1.Object
	remove   func(context.Context, string, metav1.DeleteOptions) error
}

// tidy takes away what bears the name of a Rollout that no longer exists and was made for one of its releases. A Rollout goes only when
// nothing of it is left; such a thing was asked for before that, by an executor whose request came late.
func (c *Client) tidy(ctx context.Context, gone types.NamespacedName, found []leftover) error {
	if len(found) == 0 {
		return nil
	}
	// Whatever there is now may belong to one that was made since.
	if r, err := c.getRollout(ctx, gone); err == nil && r != nil || err != nil && !isNotFound(err) {
		return err
	}
	for _, l := range found {
		_, err := within(ctx, func(ctx context.Context) (any, error) {
			return nil, l.remove(ctx, l.object.GetName(), exactly(l.object, metav1.DeletePropagationBackground))
		})
		if err != nil && !isNotFound(err) {
			return fmt.Errorf("take away %s %s of Rollout %s, which is gone: %w", l.resource, l.object.GetName(), gone, err)
		}
		c.log.Info("took away what was left of a Rollout that is gone", "namespace", gone.Namespace, "rollout", gone.Name, l.resource, l.object.GetName())
	}
	return nil
}

func (c *Client) leftovers(ctx context.Context, gone types.NamespacedName) (found []leftover, err error) {
	made := metav1.ListOptions{LabelSelector: api.LabelRolloutUID}
	services, deployments := c.core.Services(gone.Namespace), c.apps.Deployments(gone.Namespace)
	add := func(resource string, object metav1.Object, remove func(context.Context, string, metav1.DeleteOptions) error) {
		if object.GetAnnotations()[api.AnnotationRollout] == gone.Name && object.GetDeletionTimestamp() == nil {
			found = append(found, leftover{resource, object, remove})
		}
	}
	_, err = within(ctx, func(ctx context.Context) (any, error) {
		list, err := services.List(ctx, made)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			add("Service", &list.Items[i], services.Delete)
		}
		canaries, err := deployments.List(ctx, made)
		if err != nil {
			return nil, err
		}
		for i := range canaries.Items {
			add("Deployment", &canaries.Items[i], deployments.Delete)
		}
		return nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for what is left of Rollout %s, which is gone: %w", gone, err)
	}
	return found, nil
}
