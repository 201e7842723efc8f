package planner

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sluice.dev/sluice/pkg/rollout"
)

func TestRecentVersionsAreKeptAsFarAsTheWindowGoes(t *testing.T) {
	t.Parallel()
	g := aRollout().With(func(g *given) { g.Spec.RollbackWindow = 2 })
	for _, c := range []struct{ serves, want string }{
		{"v1", "v1"}, {"v1", "v1"}, {"v2", "v2 v1"}, {"v3", "v3 v2 v1"}, {"v4", "v4 v3 v2"}, {"v3", "v3 v4 v2"},
	} {
		g.Workload.Revision = c.serves
		g.Workload.Revisions = []rollout.Revision{{Hash: "h" + c.serves[1:], Revision: c.serves, Replicas: 10, Ready: 10}}
		if diff := cmp.Diff(strings.Fields(c.want), g.Planned().Status.Sluice.RecentRevisions); diff != "" {
			t.Errorf("when %s serves (-want +got):\n%s", c.serves, diff)
		}
	}
	for revision, want := range map[string]rollout.State{"v4": rollout.StateFinalising, "v2": rollout.StateFinalising, "v1": rollout.StateBeforeUpgrade} {
		t.Run(revision, func(t *testing.T) {
			g := aRollout().With(func(g *given) { g.Spec.RollbackWindow = 2 })
			g.Status.Sluice.RecentRevisions = []string{"v1x", "v4", "v2"}
			g.Workload.Revisions = []rollout.Revision{{Hash: "h1", Revision: "v1x", Replicas: 10, Ready: 10}}
			if got := g.HeldAt(revision).Planned().Planned().Status.Sluice.State; got != string(want) {
				t.Errorf("a release of it goes to %s, want %s", got, want)
			}
		})
	}
	g.Spec.RollbackWindow = 0
	if got := g.Planned().Status.Sluice.RecentRevisions; got != nil {
		t.Errorf("without a window %v are kept", got)
	}
}
