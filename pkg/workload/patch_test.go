package workload_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

// patched applies a patch as the API server does.
func patched(t *testing.T, d *appsv1.Deployment, p workload.Patch) *appsv1.Deployment {
	t.Helper()
	body, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	change, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := jsonpatch.MergePatch(body, change)
	if err != nil {
		t.Fatal(err)
	}
	out := &appsv1.Deployment{}
	if err := json.Unmarshal(merged, out); err != nil {
		t.Fatal(err)
	}
	if len(out.Annotations) == 0 {
		out.Annotations = nil
	}
	if len(out.Labels) == 0 {
		out.Labels = nil
	}
	return out
}

func TestPatchesLeadToTheMarksTheyAreNamedFor(t *testing.T) {
	t.Parallel()
	resume := func(d *appsv1.Deployment) workload.Patch { return workload.Resume(d, rollout.StableIDKept) }
	leave := func(d *appsv1.Deployment) workload.Patch { return workload.Leave(d, 0) }
	disown := func(d *appsv1.Deployment) workload.Patch { return workload.Disown(d) }
	adopt := func(d *appsv1.Deployment) workload.Patch { return workload.Adopt(d, "web", rollout.StableIDKept) }
	hold := func(d *appsv1.Deployment) workload.Patch { return workload.Hold(d, "web") }
	team := labelled("team", "shop")
	minReady := annotated("sluice.dev/original.minReadySeconds", "5")
	cases := map[string]struct {
		from  *appsv1.Deployment
		patch func(*appsv1.Deployment) workload.Patch
		to    *appsv1.Deployment
	}{
		"adopt a free one":                           {with(team), adopt, with(team, adopted)},
		"adopt one with the marks of a dead Rollout": {with(annotated("sluice.dev/rollout", "dead")), adopt, with(adopted)},
		"hold one that runs":                         {with(team, adopted), hold, with(team, adopted, inProgress, paused)},
		"hold one that its owner has paused":         {with(adopted, paused), hold, with(adopted, inProgress, paused, pausedByOwner)},
		"hold one that runs free during a release":   {with(adopted, inProgress), hold, with(adopted, inProgress, paused)},
		"hold again":                                 {with(adopted, inProgress, paused, pausedByOwner), hold, with(adopted, inProgress, paused, pausedByOwner)},
		"hold one with an old memory":                {with(adopted, pausedByOwner), hold, with(adopted, inProgress, paused)},
		"hold one that is not adopted":               {with(), hold, with(adopted, inProgress, paused)},
		"resume one that is held":                    {with(adopted, inProgress, paused), resume, with(adopted)},
		"leave one as it is held":                    {with(adopted, inProgress, paused), leave, with(adopted, paused)},
		"resume one that its owner has paused":       {with(adopted, inProgress, paused, pausedByOwner), resume, with(adopted, paused)},
		"resume one whose owner took the pause back": {
			with(adopted, inProgress, paused, annotated("sluice.dev/original.paused", "false")), resume, with(adopted),
		},
		"resume forgets every held field":   {with(adopted, inProgress, paused, minReady), resume, with(adopted)},
		"disown one that is held":           {with(team, adopted, inProgress, paused), disown, with(team)},
		"disown one that is paused":         {with(adopted, paused), disown, with(paused)},
		"disown one that was paused before": {with(adopted, inProgress, paused, pausedByOwner), disown, with(paused)},
		"disown one without marks":          {with(team), disown, with(team)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := c.patch(c.from)
			if diff := cmp.Diff(c.to, patched(t, c.from, p)); diff != "" {
				t.Errorf("the Deployment differs (-want +got):\n%s", diff)
			}
			metadata, _ := p["metadata"].(map[string]any)
			if metadata["uid"] != "u1" || metadata["resourceVersion"] != "7" {
				t.Errorf("the precondition is %v", metadata)
			}
		})
	}
}

func TestHoldThenResumeGivesBackWhatTheOwnerHadSet(t *testing.T) {
	t.Parallel()
	for name, owners := range map[string]*appsv1.Deployment{"one that runs": with(adopted), "one that is paused": with(adopted, paused)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held := patched(t, owners, workload.Hold(owners, "web"))
			if diff := cmp.Diff(owners, patched(t, held, workload.Resume(held, rollout.StableIDKept))); diff != "" {
				t.Errorf("the Deployment differs (-want +got):\n%s", diff)
			}
		})
	}
}
