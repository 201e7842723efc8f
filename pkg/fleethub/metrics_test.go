package fleethub

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
)

// shownFleet collects the metrics of these objects.
type shownFleet struct {
	fleetCollector
	members  []*api.FleetMember
	rollouts []*api.FleetRollout
}

func (s shownFleet) Collect(to chan<- prometheus.Metric) {
	s.collectFrom(s.members, s.rollouts, to)
}

func TestWhatTheMetricsOfAFleetSay(t *testing.T) {
	t.Parallel()
	h := aHub(t)
	member := func(name string, phase api.FleetMemberPhase) *api.FleetMember {
		return &api.FleetMember{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "m"}, Status: api.FleetMemberStatus{Phase: phase}}
	}
	h.beats.known["eu1"] = beat{of: "m", heard: start.Add(-7 * time.Second), enforcement: api.FleetEnforcementNone}
	s := shownFleet{fleetCollector{h}, []*api.FleetMember{member("eu1", api.FleetMemberReady), member("eu2", api.FleetMemberReady), member("eu3", api.FleetMemberUnreachable), member("eu4", "")}, []*api.FleetRollout{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "checkout"},
		Status:     api.FleetRolloutStatus{Phase: api.FleetPhaseStalled, Reason: "NothingProven", Counts: map[api.FleetTargetPhase]int32{api.FleetTargetCompleted: 2, api.FleetTargetDeferred: 1}},
	}}}
	const want = `
# HELP sluice_fleet_members Clusters of the fleet by phase.
# TYPE sluice_fleet_members gauge
sluice_fleet_members{phase="NameTaken"} 0
sluice_fleet_members{phase="Ready"} 2
sluice_fleet_members{phase="Unreachable"} 1
# HELP sluice_fleet_members_without_enforcement Clusters of the fleet in which nothing holds changes.
# TYPE sluice_fleet_members_without_enforcement gauge
sluice_fleet_members_without_enforcement 1
# HELP sluice_fleet_report_age_seconds Time since this process has heard the cluster.
# TYPE sluice_fleet_report_age_seconds gauge
sluice_fleet_report_age_seconds{member="eu1"} 7
# HELP sluice_fleet_rollout_phase 1 for the phase and the reason of each FleetRollout.
# TYPE sluice_fleet_rollout_phase gauge
sluice_fleet_rollout_phase{name="checkout",namespace="shop",phase="Stalled",reason="NothingProven"} 1
# HELP sluice_fleet_targets Clusters of the release of a FleetRollout by phase.
# TYPE sluice_fleet_targets gauge
sluice_fleet_targets{name="checkout",namespace="shop",phase="Completed"} 2
sluice_fleet_targets{name="checkout",namespace="shop",phase="Deferred"} 1
`
	if err := testutil.CollectAndCompare(s, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// Each grant and each wave that has passed counts once, however often its status is committed.
func TestWhatADecisionCounts(t *testing.T) {
	t.Parallel()
	m := newMetrics(nil, aHub(t))
	at := func(after time.Duration) metav1.MicroTime { return metav1.NewMicroTime(start.Add(after)) }
	wave := func(stage api.FleetWaveStage) []api.FleetWaveStatus {
		return []api.FleetWaveStatus{{Name: "canary", Stage: stage, Began: at(0), Since: at(10 * time.Minute)}}
	}
	granted := api.FleetRolloutStatus{Waves: wave(api.FleetWaveGoing), Grant: &api.FleetGrant{Epoch: 5, Seq: 1, Verb: api.FleetVerbRelease}}
	passed := api.FleetRolloutStatus{Waves: wave(api.FleetWavePassed), Grant: granted.Grant}
	for _, step := range [][2]api.FleetRolloutStatus{{{}, granted}, {granted, granted}, {granted, passed}, {passed, passed}} {
		m.countDecision(step[0], step[1])
	}
	if n := testutil.ToFloat64(m.grants.WithLabelValues(string(api.FleetVerbRelease))); n != 1 {
		t.Errorf("%v grants are counted, want 1", n)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m.waves)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if h := families[0].GetMetric()[0].GetHistogram(); h.GetSampleSum() != 600 || h.GetSampleCount() != 1 {
		t.Errorf("the waves are %v, want one of 600 s", h)
	}
}
