package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
)

const historyResource = "rollouthistories"

var (
	errHistoryNotFound = errors.New("there is no such record")
	errForeignHistory  = errors.New("an object that Sluice did not make has the name of a record")
)

// IsHistoryNotFound reports whether the record does not exist, or cannot exist because the namespace is being deleted.
func IsHistoryNotFound(err error) bool { return errors.Is(err, errHistoryNotFound) }

// IsHistoryAlreadyExists reports whether an object with the name of the record exists.
func IsHistoryAlreadyExists(err error) bool { return apierrors.IsAlreadyExists(err) }

// historyRequest addresses the records of a namespace, or one of them.
func historyRequest(r *rest.Request, namespace, name string) *rest.Request {
	path := []string{"/apis", api.Group, api.V1alpha1, "namespaces", namespace, historyResource}
	if name != "" {
		path = append(path, name)
	}
	return r.AbsPath(path...).Param("fieldManager", api.FieldManager)
}

// GetHistory reads the record of a Rollout's release; [IsHistoryNotFound] recognizes the error if it does not exist.
// GetHistory deletes the record of an earlier Rollout of the same name.
func (c *Client) GetHistory(ctx context.Context, of HistoryObjects, epoch int64) (*api.RolloutHistory, error) {
	on := of.accessTo("get", epoch)
	h, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*api.RolloutHistory, error) {
		h := &api.RolloutHistory{}
		return h, c.rollouts.Get().AbsPath("/apis", api.Group, api.V1alpha1, "namespaces", on.Namespace, historyResource, on.Name).Do(ctx).Into(h)
	})
	if err != nil {
		return nil, historyError(on, err)
	}
	switch h.Labels[api.LabelRolloutUID] {
	case string(of.rollout.UID):
		return h, nil
	case "":
		return nil, &apiclient.ProblemError{Cause: errForeignHistory, Problem: rollout.Problem{Message: fmt.Sprintf(
			"Release %d is not recorded: an object that Sluice did not make has the name of its record; delete it: kubectl delete rollouthistory %s -n %s", epoch, on.Name, on.Namespace)}}
	}
	if err := c.deleteHistory(ctx, h); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("read %s %s/%s: %w", on.Resource, on.Namespace, on.Name, errHistoryNotFound)
}

// CreateHistory creates the record of a Rollout's release, with the specs of its objects. If the record exists already,
// [IsHistoryAlreadyExists] recognizes the error.
func (c *Client) CreateHistory(ctx context.Context, of HistoryObjects, status api.RolloutHistoryStatus) (*api.RolloutHistory, error) {
	on := of.accessTo("create", status.Epoch)
	body, err := json.Marshal(of.buildRecord(status)) // the client encodes everything as v1beta1
	if err != nil {
		return nil, fmt.Errorf("encode the record %s: %w", on.Name, err)
	}
	created, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*api.RolloutHistory, error) {
		created := &api.RolloutHistory{}
		return created, historyRequest(c.rollouts.Post(), on.Namespace, "").SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Into(created)
	})
	return created, historyError(on, err)
}

// UpdateHistory writes the result of a release into its record, if the record has not changed since it was read.
func (c *Client) UpdateHistory(ctx context.Context, seen *api.RolloutHistory, status api.RolloutHistoryStatus) (*api.RolloutHistory, error) {
	on := apiclient.Access{Verb: "patch", Group: api.Group, Resource: historyResource, Namespace: seen.Namespace, Name: seen.Name}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": seen.UID, "resourceVersion": seen.ResourceVersion}, "status": status,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the record %s: %w", seen.Name, err)
	}
	updated, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*api.RolloutHistory, error) {
		updated := &api.RolloutHistory{}
		return updated, historyRequest(c.rollouts.Patch(types.MergePatchType), on.Namespace, on.Name).Body(body).Do(ctx).Into(updated)
	})
	return updated, historyError(on, err)
}

// PruneHistory deletes all but the newest records of a Rollout. It returns the releases whose records are kept, the newest first.
func (c *Client) PruneHistory(ctx context.Context, of HistoryObjects, keep int) (kept []int64, err error) {
	on := of.accessTo("list", 0)
	list, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*metav1.PartialObjectMetadataList, error) {
		return c.metadata.Resource(api.RolloutHistoryResource()).Namespace(on.Namespace).List(ctx,
			metav1.ListOptions{LabelSelector: api.LabelRolloutUID + "=" + string(of.rollout.UID)})
	})
	if err != nil {
		return nil, historyError(on, err)
	}
	slices.SortFunc(list.Items, func(a, b metav1.PartialObjectMetadata) int { return cmp.Compare(epochOf(b.Name), epochOf(a.Name)) })
	for i, record := range list.Items {
		if i < keep {
			kept = append(kept, epochOf(record.Name))
		} else if err := c.deleteHistory(ctx, &record); err != nil {
			return kept, err
		}
	}
	return kept, nil
}

// epochOf returns the number of the release from the name of its record.
func epochOf(name string) int64 {
	n, err := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (c *Client) deleteHistory(ctx context.Context, h metav1.Object) error {
	on := apiclient.Access{Verb: "delete", Group: api.Group, Resource: historyResource, Namespace: h.GetNamespace(), Name: h.GetName()}
	uid := h.GetUID()
	_, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (any, error) {
		return nil, c.metadata.Resource(api.RolloutHistoryResource()).Namespace(on.Namespace).Delete(ctx, on.Name,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	})
	if err = historyError(on, err); errors.Is(err, errHistoryNotFound) || apiclient.IsConflict(err) {
		return nil // it was deleted, or another record has its name
	}
	return err
}

// historyError describes an error of a call about a record.
func historyError(on apiclient.Access, err error) error {
	what := fmt.Sprintf("%s %s %s/%s", on.Verb, on.Resource, on.Namespace, on.Name)
	switch {
	case err == nil:
		return nil
	case apiclient.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fmt.Errorf("%s: %w: %w", what, errHistoryNotFound, err)
	case api.Unserved(err):
		return &apiclient.ProblemError{Cause: fmt.Errorf("%s: %w", what, err), Problem: rollout.Problem{Message: "This cluster does not serve RolloutHistory, so that releases leave no record. " +
			"Install the CRDs: sluice install --print --part crds | kubectl apply --server-side -f - ; or start executors with --history-limit=0"}}
	case apierrors.IsForbidden(err):
		return &apiclient.ProblemError{Cause: fmt.Errorf("%s: %w", what, err), Problem: apiclient.ForbiddenProblem(on, err)}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return &apiclient.ProblemError{Cause: fmt.Errorf("%s: %w", what, err), Problem: rollout.Problem{Message: fmt.Sprintf("The API server refuses the record of the release: %s", err)}}
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (i HistoryObjects) accessTo(verb string, epoch int64) apiclient.Access {
	on := apiclient.Access{Verb: verb, Group: api.Group, Resource: historyResource, Namespace: i.rollout.Namespace}
	if epoch > 0 {
		on.Name = api.HistoryName(i.rollout.Name, epoch)
	}
	return on
}

// buildRecord returns the record. Names and ids that are not valid label values are only in its spec.
func (i HistoryObjects) buildRecord(status api.RolloutHistoryStatus) *api.RolloutHistory {
	spec, leftOut := i.buildSpec()
	spec.Rollout.RolloutID = cmp.Or(i.releaseID(status.Epoch), status.CanaryRevision)
	if leftOut != "" {
		status.Message = strings.TrimSpace(leftOut + " " + status.Message)
	}
	h := &api.RolloutHistory{Spec: spec, Status: status}
	h.SetGroupVersionKind(api.RolloutHistoryResource().GroupVersion().WithKind(api.KindRolloutHistory))
	h.Namespace, h.Name = i.rollout.Namespace, api.HistoryName(i.rollout.Name, status.Epoch)
	h.Labels = map[string]string{}
	for key, value := range map[string]string{
		api.LabelRolloutUID: string(i.rollout.UID), api.LabelRolloutName: i.rollout.Name, api.LabelRolloutID: spec.Rollout.RolloutID,
	} {
		if value != "" && len(validation.IsValidLabelValue(value)) == 0 {
			h.Labels[key] = value
		}
	}
	h.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: api.GroupVersion().String(), Kind: api.KindRollout, Name: i.rollout.Name, UID: i.rollout.UID,
	}}
	return h
}
