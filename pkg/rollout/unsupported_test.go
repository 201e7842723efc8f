package rollout

import (
	"testing"

	"sluice.dev/sluice/pkg/api"
)

func TestBlueGreenIsForDeploymentsAndCloneSets(t *testing.T) {
	t.Parallel()
	for ref, want := range map[Ref]int{
		{APIVersion: "apps/v1", Kind: "Deployment"}:               0,
		{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet"}: 0,
		{APIVersion: "apps/v1", Kind: "StatefulSet"}:              1,
		{APIVersion: "example.com/v1", Kind: "CloneSet"}:          1,
	} {
		if got := unsupportedFields(&api.Rollout{}, Spec{Style: StyleBlueGreen, Workload: ref}, plan{}); len(got) != want {
			t.Errorf("%s of %s: %q", ref.Kind, ref.APIVersion, got)
		}
	}
}
