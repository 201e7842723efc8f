package fleet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
)

// After a release, the clusters that lack the version are named: those without an object of their own too, and those that have failed within the budgets.
func TestClustersThatLackTheVersion(t *testing.T) {
	t.Parallel()
	member := func(name string, phase api.FleetMemberPhase, cordon *api.FleetCordon) api.FleetMember {
		return api.FleetMember{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: api.FleetMemberSpec{Cordoned: cordon}, Status: api.FleetMemberStatus{Phase: phase, Message: "the hub does not hear it"}}
	}
	target := func(name string, phase api.FleetTargetPhase, reason string) api.FleetTarget {
		return api.FleetTarget{
			Spec:   api.FleetTargetSpec{Cluster: name, Permit: api.FleetPermit{Epoch: 5}},
			Status: api.FleetTargetStatus{Phase: phase, Reason: reason, Report: &api.FleetReport{Message: "as the cluster says"}},
		}
	}
	r := &api.FleetRollout{Status: api.FleetRolloutStatus{
		Began: 5, Phase: api.FleetPhaseSucceeded, Skipped: []string{"skipped"},
		Waves:     []api.FleetWaveStatus{{Name: "all", Clusters: []string{"done", "failed", "lost", "silent", "cordoned", "late", "skipped", "left"}}},
		Attention: []api.FleetAttention{{Cluster: "late", Phase: api.FleetTargetDeferred, Reason: "NotDelivered", Message: "it holds v1"}},
		Counts:    map[api.FleetTargetPhase]int32{api.FleetTargetDeferred: 3},
	}}
	targets := []api.FleetTarget{target("done", api.FleetTargetCompleted, ""), target("failed", api.FleetTargetFailed, "AnalysisFailed"), target("lost", api.FleetTargetUnknown, "Unreachable")}
	members := []api.FleetMember{
		member("done", api.FleetMemberReady, nil), member("failed", api.FleetMemberReady, nil), member("lost", api.FleetMemberUnreachable, nil), member("silent", api.FleetMemberUnreachable, nil),
		member("cordoned", api.FleetMemberReady, &api.FleetCordon{Reason: "a new kernel"}), member("late", api.FleetMemberReady, nil), member("skipped", api.FleetMemberReady, nil),
	}
	var got []string
	for _, c := range ReadClusters(r, targets, members, time.Now()) {
		if c.Lacks() {
			got = append(got, c.Lacking())
		}
	}
	if diff := cmp.Diff([]string{
		"failed: failed  AnalysisFailed  as the cluster says", "deferred: lost  Unreachable  as the cluster says", "deferred: silent  Unreachable  the hub does not hear it",
		"deferred: cordoned  Cordoned  a new kernel", "deferred: late  NotDelivered  it holds v1",
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
