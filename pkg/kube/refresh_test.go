package kube

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
)

func TestWhichPartAConflictIsAbout(t *testing.T) {
	t.Parallel()
	routing := rollout.Routing{Service: "web", CanaryService: "web-canary"}
	s := &Snapshot{
		rollout:  &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}},
		spec:     rollout.Spec{Workload: rollout.Ref{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}},
		backends: []*backend{{routing: routing}},
	}
	conflict := apierrors.NewConflict(schema.GroupResource{}, "web", errors.New("it was modified"))
	for name, c := range map[string]struct {
		on   apiclient.Access
		err  error
		want part
		all  bool
	}{
		"the workload":            {s.accessTo("patch", "apps", "deployments", "web"), conflict, partWorkload, false},
		"the canary":              {s.accessTo("patch", "apps", "deployments", "web-canary"), conflict, partCanary, false},
		"a ReplicaSet":            {s.accessTo("patch", "apps", "replicasets", "web-1"), conflict, partReplicaSets, false},
		"the stable Service":      {s.accessTo("patch", "", "services", "web"), conflict, partStableService, false},
		"the canary Service":      {s.accessTo("delete", "", "services", "web-canary"), conflict, partCanaryService, false},
		"a route":                 {s.accessTo("update", "networking.istio.io", "virtualservices", "web"), conflict, 0, true},
		"a Deployment of no part": {s.accessTo("patch", "apps", "deployments", "other"), conflict, 0, true},
		"what is gone":            {s.accessTo("patch", "apps", "deployments", "web"), apierrors.NewNotFound(schema.GroupResource{}, "web"), 0, true},
	} {
		err := fmt.Errorf("carry out: %w", apiclient.ActionError(rollout.AddFinalizer{}, c.on, c.err))
		if p, known := s.partInConflict(err); p != c.want || known == c.all || !apiclient.IsConflict(err) {
			t.Errorf("%s: it is about part %d (%t), want %d (%t)", name, p, known, c.want, !c.all)
		}
	}
	if _, known := s.partInConflict(apiclient.RolloutError("commit the status of", s.rollout, conflict)); known {
		t.Error("a commit that met a conflict is about a part")
	}
}
