package kube

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"

	"sluice.dev/sluice/pkg/api"
)

// Refresh makes a snapshot show the object of a write that met a conflict as it is now, and everything else where the error does not tell
// which object that is, as [Client.Again] does. What else a further decision stands on is for [Client.Confirm] to read, as in a run that met
// no conflict. The Rollout is asked for once more in any case: the other one may be an executor that has gone on.
func (c *Client) Refresh(ctx context.Context, s *Snapshot, conflict error) error {
	p, known := s.partInConflict(conflict)
	if !known {
		return c.Again(ctx, s)
	}
	o := &observation{client: c, snapshot: s, namespace: s.rollout.Namespace, source: fromServer, wanted: partsOf(p)}
	if err := o.readParts(ctx); err != nil {
		return fmt.Errorf("look again at what met a conflict: %w", err)
	}
	s.live[partRollout] = false
	if p == partWorkload { // its ReplicaSets were counted beside an older state of it
		s.live[partSets] = false
	}
	s.look()
	return nil
}

// partInConflict is the part of the snapshot that a write was about. On the Rollout hangs everything, and on a workload that is no Deployment
// all its pods: they are none.
func (s *Snapshot) partInConflict(conflict error) (p part, known bool) {
	var e *conflictError
	if !errors.As(conflict, &e) || s.object.there() {
		return 0, false
	}
	switch name := e.on.name; {
	case e.on.is(appsv1.GroupName, "deployments") && name == s.spec.Workload.Name:
		return partWorkload, true
	case e.on.is(appsv1.GroupName, "deployments") && name == s.spec.Workload.Name+api.SuffixCanary:
		return partCanary, true
	case e.on.is(appsv1.GroupName, "replicasets"):
		return partSets, true
	case e.on.is("", "services"):
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

func (t target) is(group, resource string) bool { return t.group == group && t.resource == resource }
