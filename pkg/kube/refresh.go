package kube

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
)

// RefreshConflicted reads the object of a write that met a conflict into the snapshot. If the error does not name the
// object, it reads everything, as [Client.ObserveLiveInto] does. [Client.ConfirmDecision] reads the other parts that a
// further decision depends on, as in a run without a conflict. It always reads the Rollout again, because the conflict
// may come from another executor that has gone on.
func (c *Client) RefreshConflicted(ctx context.Context, s *Snapshot, conflict error) error {
	p, known := s.partInConflict(conflict)
	if !known {
		return c.ObserveLiveInto(ctx, s)
	}
	o := &observation{client: c, snapshot: s, namespace: s.rollout.Namespace, source: fromServer, wanted: partsOf(p)}
	if err := o.readParts(ctx); err != nil {
		return fmt.Errorf("look again at what met a conflict: %w", err)
	}
	s.liveParts[partRollout] = false
	if p == partWorkload { // its ReplicaSets were counted with an older state of it
		s.liveParts[partReplicaSets] = false
	}
	s.updateView()
	return nil
}

// partInConflict returns the part of the snapshot that a write was about. known is false for the Rollout, because
// everything depends on it. It is also false for a workload that is not a Deployment, because all of its pods depend on
// it.
func (s *Snapshot) partInConflict(conflict error) (p part, known bool) {
	var e *apiclient.ConflictError
	if !errors.As(conflict, &e) || s.object.isPresent() {
		return 0, false
	}
	switch name := e.Access.Name; {
	case e.Access.IsFor(appsv1.GroupName, "deployments") && name == s.spec.Workload.Name:
		return partWorkload, true
	case e.Access.IsFor(appsv1.GroupName, "deployments") && name == s.spec.Workload.Name+api.SuffixCanary:
		return partCanary, true
	case e.Access.IsFor(appsv1.GroupName, "replicasets"):
		return partReplicaSets, true
	case e.Access.IsFor("", "services"):
		for _, b := range s.backends {
			switch name {
			case b.routing.Service:
				return partStableService, true
			case b.routing.CanaryService:
				return partCanaryService, true
			}
		}
	}
	return 0, false
}
