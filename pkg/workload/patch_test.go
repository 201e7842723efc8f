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
	resume := func(d *appsv1.Deployment) workload.Patch { return workload.ResumeDeployment(d, rollout.StableIDKept) }
	leave := func(d *appsv1.Deployment) workload.Patch { return workload.ResumePaused(d, 0) }
	disown := func(d *appsv1.Deployment) workload.Patch { return workload.DisownDeployment(d) }
	adopt := func(d *appsv1.Deployment) workload.Patch {
		return workload.AdoptDeployment(d, "web", rollout.StableIDKept)
	}
	hold := func(d *appsv1.Deployment) workload.Patch { return workload.HoldDeployment(d, "web") }
	team := labelled("team", "shop")
	minReady := annotated("sluice.dev/original.minReadySeconds", "5")
	cases := map[string]struct {
		from  *appsv1.Deployment
		patch func(*appsv1.Deployment) workload.Patch
		to    *appsv1.Deployment
	}{
		"adopt a free one":                           {mergeMaps(team), adopt, mergeMaps(team, adopted)},
		"adopt one with the marks of a dead Rollout": {mergeMaps(annotated("sluice.dev/rollout", "dead")), adopt, mergeMaps(adopted)},
		"hold one that runs":                         {mergeMaps(team, adopted), hold, mergeMaps(team, adopted, inProgress, paused)},
		"hold one that its owner has paused":         {mergeMaps(adopted, paused), hold, mergeMaps(adopted, inProgress, paused, pausedByOwner)},
		"hold one that runs free during a release":   {mergeMaps(adopted, inProgress), hold, mergeMaps(adopted, inProgress, paused)},
		"hold again":                                 {mergeMaps(adopted, inProgress, paused, pausedByOwner), hold, mergeMaps(adopted, inProgress, paused, pausedByOwner)},
		"hold one with an old memory":                {mergeMaps(adopted, pausedByOwner), hold, mergeMaps(adopted, inProgress, paused)},
		"hold one that is not adopted":               {mergeMaps(), hold, mergeMaps(adopted, inProgress, paused)},
		"resume one that is held":                    {mergeMaps(adopted, inProgress, paused), resume, mergeMaps(adopted)},
		"leave one as it is held":                    {mergeMaps(adopted, inProgress, paused), leave, mergeMaps(adopted, paused)},
		"resume one that its owner has paused":       {mergeMaps(adopted, inProgress, paused, pausedByOwner), resume, mergeMaps(adopted, paused)},
		"resume one whose owner took the pause back": {
			mergeMaps(adopted, inProgress, paused, annotated("sluice.dev/original.paused", "false")), resume, mergeMaps(adopted),
		},
		"resume forgets every held field":   {mergeMaps(adopted, inProgress, paused, minReady), resume, mergeMaps(adopted)},
		"disown one that is held":           {mergeMaps(team, adopted, inProgress, paused), disown, mergeMaps(team)},
		"disown one that is paused":         {mergeMaps(adopted, paused), disown, mergeMaps(paused)},
		"disown one that was paused before": {mergeMaps(adopted, inProgress, paused, pausedByOwner), disown, mergeMaps(paused)},
		"disown one without marks":          {mergeMaps(team), disown, mergeMaps(team)},
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
	for name, owners := range map[string]*appsv1.Deployment{"one that runs": mergeMaps(adopted), "one that is paused": mergeMaps(adopted, paused)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held := patched(t, owners, workload.HoldDeployment(owners, "web"))
			if diff := cmp.Diff(owners, patched(t, held, workload.ResumeDeployment(held, rollout.StableIDKept))); diff != "" {
				t.Errorf("the Deployment differs (-want +got):\n%s", diff)
			}
		})
	}
}
