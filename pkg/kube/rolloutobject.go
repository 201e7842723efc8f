package kube

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
)

func (c *Client) getRollout(ctx context.Context, key types.NamespacedName) (*api.Rollout, error) {
	return apiclient.WithDeadline(ctx, func(ctx context.Context) (*api.Rollout, error) {
		r := &api.Rollout{}
		return r, c.rollouts.Get().Namespace(key.Namespace).Resource("rollouts").Name(key.Name).Do(ctx).Into(r)
	})
}

func (c *Client) listRollouts(ctx context.Context, namespace string) ([]*api.Rollout, error) {
	return apiclient.WithDeadline(ctx, func(ctx context.Context) ([]*api.Rollout, error) {
		list := &api.RolloutList{}
		err := c.rollouts.Get().Namespace(namespace).Resource("rollouts").Do(ctx).Into(list)
		return pointersTo(list.Items), err
	})
}

// CommitStatus writes the status, unless the Rollout already has it. It first copies the rolloutHash of the status to an
// annotation of the Rollout, where clients of OpenKruise read it. A cluster that refuses the annotation, for example by a
// policy of its owner, gets the status without it. Afterwards the snapshot has the new Rollout, and
// routes for its current step. CommitStatus fails with a conflict if the Rollout was changed since it was read, for
// example by an approval. [apiclient.IsGone] recognizes the error for a deleted Rollout.
func (c *Client) CommitStatus(ctx context.Context, s *Snapshot, status api.RolloutStatus) error {
	if err := c.annotateRolloutHash(ctx, s, status); err != nil {
		return err
	}
	if apiequality.Semantic.DeepEqual(s.rollout.Status, status) {
		return nil
	}
	began, next := time.Now(), s.rollout.DeepCopy()
	next.Status = *status.DeepCopy()
	next.ManagedFields = nil // this copy may not have all entries, and the API server has them
	updated, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*api.Rollout, error) {
		r := &api.Rollout{}
		return r, c.rollouts.Put().Namespace(next.Namespace).Resource("rollouts").Name(next.Name).SubResource("status").
			Param("fieldManager", api.FieldManager).Body(next).Do(ctx).Into(r)
	})
	if err != nil {
		return apiclient.RolloutError("commit the status of", next, err)
	}
	s.observedAt = began
	s.storeRollout(c, updated)
	s.updateView()
	return nil
}

func (c *Client) annotateRolloutHash(ctx context.Context, s *Snapshot, status api.RolloutStatus) error {
	common := status.Common()
	if common == nil || common.RolloutHash == "" || s.rollout.DeletionTimestamp != nil || s.rollout.Annotations[api.AnnotationRolloutHash] == common.RolloutHash {
		return nil
	}
	err := c.patchRolloutMetadata(ctx, s, map[string]any{"annotations": map[string]any{api.AnnotationRolloutHash: common.RolloutHash}})
	if err == nil {
		return nil
	}
	if err = apiclient.RolloutError("annotate", s.rollout, err); apiclient.IsConflict(err) || apiclient.IsGone(err) {
		return err
	}
	c.log.Warn("the status is written without the annotation "+api.AnnotationRolloutHash, "namespace", s.rollout.Namespace, "rollout", s.rollout.Name, "error", err)
	return nil
}

// setFinalizer adds the finalizer of Sluice to the Rollout, or removes it.
func (c *Client) setFinalizer(ctx context.Context, s *Snapshot, present bool) error {
	finalizers := slices.DeleteFunc(slices.Clone(s.rollout.Finalizers), func(f string) bool { return f == api.FinalizerRollout })
	if present {
		finalizers = append(finalizers, api.FinalizerRollout)
	}
	err := c.patchRolloutMetadata(ctx, s, map[string]any{"finalizers": finalizers})
	switch {
	case err == nil:
		return nil
	case !apiclient.IsNotFound(err) || present:
		return apiclient.RolloutError("set the finalizers of", s.rollout, err)
	}
	c.informers.rollouts.MarkDeleted(s.rollout.UID, false) // the Rollout is already deleted
	s.rollout = s.rollout.DeepCopy()
	s.rollout.Finalizers = nil
	return nil
}

// patchRolloutMetadata changes metadata of the Rollout as the snapshot saw it.
func (c *Client) patchRolloutMetadata(ctx context.Context, s *Snapshot, metadata map[string]any) error {
	metadata["uid"], metadata["resourceVersion"] = s.rollout.UID, s.rollout.ResourceVersion
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	updated, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*api.Rollout, error) {
		r := &api.Rollout{}
		return r, c.rollouts.Patch(types.MergePatchType).Namespace(s.rollout.Namespace).Resource("rollouts").Name(s.rollout.Name).
			Param("fieldManager", api.FieldManager).Body(body).Do(ctx).Into(r)
	})
	if err == nil {
		s.storeRollout(c, updated)
	}
	return err
}

// recordPermit records on the Rollout which permit of its fleet a release has used up.
func (c *Client) recordPermit(ctx context.Context, s *Snapshot, used api.PermitNumber) error {
	err := c.patchRolloutMetadata(ctx, s, map[string]any{
		"annotations": map[string]any{api.AnnotationPermitUsed: used.String()},
	})
	if err != nil {
		return apiclient.RolloutError("record the used permit of", s.rollout, err)
	}
	return nil
}

// permitUsed reads the record of recordPermit. A record that cannot be read counts as a permit before all others.
func permitUsed(r *api.Rollout) api.PermitNumber {
	record, recorded := r.Annotations[api.AnnotationPermitUsed]
	if !recorded {
		return api.PermitNumber{}
	}
	used, ok := api.ParsePermitNumber(record)
	if !ok {
		return api.PermitNumber{Seq: 1}
	}
	return used
}

// storeRollout takes in the Rollout from an answer of the API server.
func (s *Snapshot) storeRollout(c *Client, updated *api.Rollout) {
	c.informers.rollouts.StoreAnswer(updated)
	s.rollout, s.liveParts[partRollout] = updated, true
}

// statusEditor returns the field manager, other than Sluice, that owns a command field of the status, "" without
// one. The API server makes the last manager that changes such a field its owner.
func statusEditor(r *api.Rollout) string {
	var name string
	var at time.Time
	for _, entry := range r.ManagedFields {
		if entry.Subresource != "status" || entry.Manager == api.FieldManager || !holdsCommand(entry.FieldsV1) {
			continue
		}
		if entry.Time == nil && name == "" || entry.Time != nil && !entry.Time.Time.Before(at) {
			name = entry.Manager
			if entry.Time != nil {
				at = entry.Time.Time
			}
		}
	}
	return name
}

func holdsCommand(fields *metav1.FieldsV1) bool {
	if fields == nil {
		return false
	}
	type release struct {
		State *json.RawMessage `json:"f:currentStepState"`
		Next  *json.RawMessage `json:"f:nextStepIndex"`
	}
	var owned struct {
		Status struct {
			Canary    release `json:"f:canaryStatus"`
			BlueGreen release `json:"f:blueGreenStatus"`
		} `json:"f:status"`
	}
	if json.Unmarshal(fields.GetRawBytes(), &owned) != nil {
		return false
	}
	s := owned.Status
	return s.Canary.State != nil || s.Canary.Next != nil || s.BlueGreen.State != nil || s.BlueGreen.Next != nil
}
