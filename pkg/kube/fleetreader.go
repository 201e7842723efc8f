package kube

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
)

// FleetReader reads releases of a fleet's hub, without a watch.
type FleetReader struct{ client dynamic.Interface }

// NewFleetReader makes a reader with the rights of the config.
func NewFleetReader(config *rest.Config) (*FleetReader, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for releases of a fleet: %w", err)
	}
	return &FleetReader{client}, nil
}

// ReadFleetRollout reads a FleetRollout.
func (f *FleetReader) ReadFleetRollout(ctx context.Context, name types.NamespacedName) (*api.FleetRollout, error) {
	object, err := f.client.Resource(api.FleetRolloutResource()).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read FleetRollout %s: %w", name, err)
	}
	r := &api.FleetRollout{}
	return r, fromUnstructured(object, r)
}

// ListFleetTargets lists the clusters of a FleetRollout that have had a permit.
func (f *FleetReader) ListFleetTargets(ctx context.Context, of *api.FleetRollout) ([]api.FleetTarget, error) {
	targets, err := listObjects[api.FleetTarget](ctx, f.client.Resource(api.FleetTargetResource()).Namespace(of.Namespace),
		metav1.ListOptions{LabelSelector: api.LabelFleetRollout + "=" + labelValue(of.Name, string(of.UID))})
	if err != nil {
		return nil, fmt.Errorf("list the FleetTargets of %s/%s: %w", of.Namespace, of.Name, err)
	}
	return targets, nil
}

// ListFleetMembers lists all clusters of the fleet.
func (f *FleetReader) ListFleetMembers(ctx context.Context) ([]api.FleetMember, error) {
	members, err := listObjects[api.FleetMember](ctx, f.client.Resource(api.FleetMemberResource()), metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the FleetMembers: %w", err)
	}
	return members, nil
}

func listObjects[T any](ctx context.Context, of dynamic.ResourceInterface, o metav1.ListOptions) ([]T, error) {
	list, err := of.List(ctx, o)
	if err != nil {
		return nil, err
	}
	objects := make([]T, len(list.Items))
	for i := range list.Items {
		if err := fromUnstructured(&list.Items[i], &objects[i]); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

func fromUnstructured(object *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
		return fmt.Errorf("read %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
	return nil
}
