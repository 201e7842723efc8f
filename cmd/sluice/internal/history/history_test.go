package history_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/cmd/sluice/internal/history"
	"sluice.dev/sluice/cmd/sluice/internal/revision"
	"sluice.dev/sluice/pkg/api"
)

var now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func minute(n int) *metav1.MicroTime {
	return &metav1.MicroTime{Time: now.Add(time.Duration(n-60) * time.Minute)}
}

func template(image string) map[string]any {
	return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "app", "image": image}}}}
}

// web returns a Deployment that runs v2.
func web() revision.Workload {
	w := revision.Workload{Object: &unstructured.Unstructured{Object: map[string]any{
		"kind": "Deployment", "metadata": map[string]any{"name": "web", "namespace": "shop"}, "spec": map[string]any{"template": template("v2")}}}}
	w.Revisions = []revision.Revision{
		{Number: 1, Hash: "hash1", Template: template("v1"), Created: now.Add(-3 * time.Hour)},
		{Number: 2, Hash: "hash2", Template: template("v2"), Created: now.Add(-time.Hour), Digest: w.Digest(), Cause: "upgrade\nto v2"},
	}
	return w
}

// records returns the records of a successful release, of a release under way, and an empty one.
func records() []*api.RolloutHistory {
	planned := func(r *api.RolloutHistory) *api.RolloutHistory {
		r.Namespace, r.Labels = "shop", map[string]string{api.LabelRolloutName: "web"}
		r.Spec.Rollout.Data.Raw = []byte(`{"strategy":{"canary":{"steps":[{"replicas":1},{"replicas":"50%"},{"replicas":"100%"}]}}}`)
		return r
	}
	return []*api.RolloutHistory{
		planned(&api.RolloutHistory{ObjectMeta: metav1.ObjectMeta{Name: "web-12"}, Status: api.RolloutHistoryStatus{
			Epoch: 12, StartedAt: minute(58), CanaryRevision: "gone", Images: []string{"v3", "sidecar"}, Steps: []api.HistoryStep{{Step: 1, StartedAt: minute(58), Verdict: "Running"}}}}),
		planned(&api.RolloutHistory{ObjectMeta: metav1.ObjectMeta{Name: "web-9"}, Status: api.RolloutHistoryStatus{
			Epoch: 9, Style: "Canary", Outcome: api.OutcomeCompleted, Message: "All of it runs.", StartedAt: minute(0), EndedAt: minute(12), StableRevision: "hash1", CanaryRevision: "hash2", Images: []string{"v2"},
			Steps: []api.HistoryStep{
				{Step: 1, StartedAt: minute(0), EndedAt: minute(5), ApprovedBy: "kim", Comment: "looks\ngood", Verdict: "Passed"},
				{Step: 2, StartedAt: minute(5), EndedAt: minute(6), ApprovedBy: "alex"}, {Step: 3, StartedAt: minute(6), EndedAt: minute(12), ApprovedBy: "kim"}}}}),
		{ObjectMeta: metav1.ObjectMeta{Name: "web-10"}, Status: api.RolloutHistoryStatus{Phase: api.HistoryCompleted}},
	}
}

func TestTheTables(t *testing.T) {
	t.Parallel()
	all := records()
	history.SortRecords(all)
	var out bytes.Buffer
	if err := history.WriteReleases(&out, all, web().Revisions, now); err != nil {
		t.Fatal(err)
	}
	if err := history.WriteRevisions(&out, web(), "hash1", now); err != nil {
		t.Fatal(err)
	}
	want := `RELEASE   REVISION   OUTCOME     IMAGES       STARTED                TOOK   STEPS   APPROVED BY
9         2          Completed   v2           2026-11-20T09:00:00Z   12m    3/3     kim,alex
10                   ended                                                  0
12                   under way   v3,sidecar   2026-11-20T09:58:00Z   2m     1/3
REVISION   IMAGES   AGE   NOTE      CHANGE-CAUSE
1          v1       3h    stable
2          v2       60m   present   upgrade to v2
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestOneReleaseInDetail(t *testing.T) {
	t.Parallel()
	all := records()
	history.SortRecords(all)
	want := `Release     9 of Rollout shop/web
Outcome     Completed: All of it runs.
Style       Canary
Started     2026-11-20T09:00:00Z
Ended       2026-11-20T09:12:00Z
Took        12m
Stable      hash1, revision 1 of the workload
New         hash2, revision 2 of the workload
Images      v2
Steps
   1  2026-11-20T09:00:00Z  5m    metrics: Passed  approved by kim: looks good
   2  2026-11-20T09:05:00Z  60s   approved by alex
   3  2026-11-20T09:06:00Z  6m    approved by kim`
	if diff := cmp.Diff(want, strings.Join(history.ReleaseDetail(all[0], web().Revisions, now), "\n")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want = `Release     12 of Rollout shop/web
Outcome     under way
Started     2026-11-20T09:58:00Z
Took        2m
New         gone
Images      v3
            sidecar
Steps
   1  2026-11-20T09:58:00Z  2m    metrics: Running`
	if diff := cmp.Diff(want, strings.Join(history.ReleaseDetail(all[2], web().Revisions, now), "\n")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestOneRevisionInDetail(t *testing.T) {
	t.Parallel()
	w := web()
	got, err := history.RevisionDetail(w.Revisions[1], w, "hash1", records())
	if err != nil {
		t.Fatal(err)
	}
	want := `Revision    2 of Deployment shop/web
Note        present
Created     2026-11-20T09:00:00Z
Cause       upgrade
            to v2
Releases    9 (Completed)
Pod template
  spec:
    containers:
    - image: v2
      name: app`
	if diff := cmp.Diff(want, strings.Join(got, "\n")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
