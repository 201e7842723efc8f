package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sluice.dev/sluice/pkg/rollout"
)

func TestCanaryIDTellsApartWhatPodsAreMadeOf(t *testing.T) {
	labels := map[string]string{"version": "canary"}
	ids := map[string]string{
		"no metadata":     CanaryID("v2", nil, map[string]string{}),
		"labels":          CanaryID("v2", labels, nil),
		"other labels":    CanaryID("v2", map[string]string{"version": "next"}, nil),
		"annotations":     CanaryID("v2", nil, labels),
		"another version": CanaryID("v3", labels, nil),
	}
	if ids["no metadata"] != "v2" {
		t.Errorf("without metadata it is %q", ids["no metadata"])
	}
	names := map[string]string{}
	for name, id := range ids {
		if other := names[id]; other != "" {
			t.Errorf("%s and %s have the same id", name, other)
		}
		names[id] = name
	}
}

// Routes render the present labels of the Rollout: pods with older labels lose their traffic before the executor creates them again.
func TestChangedPodMetadataMakesTheCanaryAnew(t *testing.T) {
	g := aRelease().AtStep(2).Paused()
	g.Spec.PatchLabels = map[string]string{"version": "canary"}
	want := []string{
		"restore VirtualService demo", "delete canary demo-canary", "create canary demo-canary with 5 replicas", "route step 2 on VirtualService demo",
	}
	if diff := cmp.Diff(want, g.replan().settle()); diff != "" {
		t.Error(diff)
	}
	if g.Canary.Revision == "v2" || g.Status.Sluice.State != string(rollout.StatePaused) {
		t.Errorf("the canary is of %q, in %s", g.Canary.Revision, g.Status.Sluice.State)
	}
}
