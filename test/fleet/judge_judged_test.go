package fleet

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// tale is a made-up story: the writes of a hub and of two clusters, one second after the other.
type tale struct {
	evidence
	t       *testing.T
	now     time.Time
	version int64
	status  api.FleetRolloutStatus
	members map[string]*api.Rollout
}

// lawful is a tale in which v2 goes through eu1, and then through eu2.
func lawful(t *testing.T) *tale {
	x := &tale{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), members: map[string]*api.Rollout{}}
	x.evidence = evidence{members: map[string][]world.Write{}, pods: map[string][]podEvent{}, restored: map[string]bool{}}
	for _, cluster := range []string{"eu1", "eu2"} {
		x.members[cluster] = &api.Rollout{
			ObjectMeta: metav1.ObjectMeta{Name: "checkout", UID: types.UID("rollout of " + cluster)},
			Spec:       api.RolloutSpec{Fleet: &api.FleetReference{Namespace: "shop", Name: "checkout"}},
			Status: api.RolloutStatus{
				Sluice: &api.SluiceStatus{Epoch: 1, State: string(rollout.StateIdle)},
				Fleet:  &api.RolloutFleetStatus{FleetRollout: api.FleetReference{Namespace: "shop", Name: "checkout"}, Served: []api.FleetVersion{known("v1")}},
			},
		}
		x.commit(cluster, func(*api.RolloutStatus) {})
	}
	x.status = api.FleetRolloutStatus{
		Epoch: 10, Began: 10, Verb: api.FleetVerbRelease, Release: &api.FleetRelease{Version: "v2"}, Wave: 1,
		Plan:  &api.FleetStrategy{Waves: []api.FleetWave{{Name: "all"}}},
		Waves: []api.FleetWaveStatus{{Name: "all", Stage: api.FleetWaveGoing, Clusters: []string{"eu1", "eu2"}}},
	}
	x.hubCommit(func(*api.FleetRolloutStatus) {})
	x.through("eu1", 1)
	x.through("eu2", 2)
	x.hubCommit(func(s *api.FleetRolloutStatus) { s.Waves[0].Stage = api.FleetWavePassed })
	return x
}

func known(version string) api.FleetVersion {
	return api.FleetVersion{Version: version, Revision: "template of " + version}
}

func (x *tale) write(into *[]world.Write, user, resource, subresource, name string, object any) {
	x.t.Helper()
	u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		x.t.Fatal(err)
	}
	x.now, x.version = x.now.Add(time.Second), x.version+1
	*into = append(*into, world.Write{Verb: "update", User: user, Resource: resource, Subresource: subresource, Name: name, Code: 200, Object: &unstructured.Unstructured{Object: u}, Version: x.version, Received: x.now})
}

// unanswered writes what the API server did not answer, as when its client was killed.
func (x *tale) unanswered(resource, subresource, name string) {
	x.now = x.now.Add(time.Second)
	x.hub = append(x.hub, world.Write{Verb: "update", User: api.DefaultInstallation().ExecutorUser(), Resource: resource, Subresource: subresource, Name: name, Code: 504, Version: x.version, Received: x.now})
}

func (x *tale) hubCommit(change func(*api.FleetRolloutStatus)) {
	x.t.Helper()
	x.status = *x.status.DeepCopy()
	change(&x.status)
	x.write(&x.hub, api.DefaultInstallation().ExecutorUser(), "fleetrollouts", "status", "checkout", &api.FleetRollout{ObjectMeta: metav1.ObjectMeta{Name: "checkout", UID: "the fleet"}, Status: x.status})
}

// grant commits a grant to release v2.
func (x *tale) grant(seq int64, clusters ...string) {
	x.t.Helper()
	x.hubCommit(func(s *api.FleetRolloutStatus) {
		s.Grant = &api.FleetGrant{Epoch: s.Epoch, Seq: seq, Verb: s.Verb, Wave: 1, Time: metav1.NewMicroTime(x.now), Clusters: clusters}
	})
}

func (x *tale) permit(seq int64) api.FleetPermit {
	p := api.FleetPermit{Epoch: x.status.Epoch, Seq: seq, Verb: x.status.Verb, Version: "version/v2"}
	if p.Verb == api.FleetVerbRelease {
		end := metav1.NewMicroTime(x.now.Add(time.Minute))
		p.Revision, p.NotAfter = known("v2").Revision, &end
	}
	return p
}

func (x *tale) target(cluster string, permit api.FleetPermit, change func(*api.FleetTargetStatus)) {
	x.t.Helper()
	target := &api.FleetTarget{ObjectMeta: metav1.ObjectMeta{Name: "checkout." + cluster}, Spec: api.FleetTargetSpec{Cluster: cluster, Permit: permit}}
	change(&target.Status)
	x.write(&x.hub, api.DefaultInstallation().ExecutorUser(), "fleettargets", "", target.Name, target)
}

func asBefore(*api.FleetTargetStatus) {}

func (x *tale) commit(cluster string, change func(*api.RolloutStatus)) {
	x.t.Helper()
	r := x.members[cluster].DeepCopy()
	change(&r.Status)
	x.members[cluster] = r
	list := x.evidence.members[cluster]
	x.write(&list, api.DefaultInstallation().ExecutorUser(), "rollouts", "status", "checkout", r)
	x.evidence.members[cluster] = list
}

// begins has a cluster begin the release of v2 under a permit.
func (x *tale) begins(cluster string, permit api.FleetPermit) {
	x.t.Helper()
	x.commit(cluster, func(s *api.RolloutStatus) {
		s.Sluice = &api.SluiceStatus{Epoch: s.Sluice.Epoch + 1, Step: 1, State: string(rollout.StateBeforeUpgrade), CanaryRevision: known("v2").Revision}
		s.Fleet.Permit, s.Fleet.Releasing = &permit, known("v2")
		s.Fleet.Used = &api.FleetPermitUse{Epoch: permit.Epoch, Seq: permit.Seq, Release: s.Sluice.Epoch, Revision: known("v2").Revision}
	})
}

// completes has all pods of a cluster run a version.
func (x *tale) completes(cluster, version string) {
	x.t.Helper()
	x.commit(cluster, func(s *api.RolloutStatus) {
		s.Sluice.State = string(rollout.StateIdle)
		s.Fleet.Served = slices.Insert(slices.DeleteFunc(s.Fleet.Served, func(v api.FleetVersion) bool { return v == known(version) }), 0, known(version))
	})
}

// through brings v2 into a cluster by one grant.
func (x *tale) through(cluster string, seq int64) {
	x.t.Helper()
	x.grant(seq, cluster)
	permit := x.permit(seq)
	x.target(cluster, permit, asBefore)
	x.begins(cluster, permit)
	x.pod(cluster, "v2")
	x.completes(cluster, "v2")
}

// pod has a new pod of a version appear.
func (x *tale) pod(cluster, version string) {
	x.now, x.version = x.now.Add(time.Second), x.version+1
	x.pods[cluster] = append(x.pods[cluster], podEvent{at: x.now, version: x.version, name: "pod of " + version, tag: version})
}

// withdraw takes v2 back from eu1.
func (x *tale) withdraw() {
	x.t.Helper()
	x.hubCommit(func(s *api.FleetRolloutStatus) {
		s.Epoch, s.Verb, s.Blocked = 20, api.FleetVerbWithdraw, []api.FleetBlock{{Version: "version/v2", Epoch: 20}}
	})
	x.grant(3, "eu1")
	x.target("eu1", x.permit(3), asBefore)
	permit := x.permit(3)
	x.commit("eu1", func(s *api.RolloutStatus) { s.Fleet.Permit, s.Fleet.Blocked = &permit, x.status.Blocked })
}

// answered has the hub take in that eu1 has gone back.
func (x *tale) answered() {
	x.t.Helper()
	x.target("eu1", x.permit(3), func(s *api.FleetTargetStatus) {
		s.Report = &api.FleetReport{Epoch: 20, Seq: 3, State: api.FleetReportCompleted}
	})
}

// TestTheJudgeSeesEachBreach breaks each invariant once in an otherwise lawful tale. Two tales stay lawful, because the log does not show a write that
// took effect without an answer.
func TestTheJudgeSeesEachBreach(t *testing.T) {
	if breaches := breachesOf(lawful(t).evidence); len(breaches) > 0 {
		t.Fatalf("the judge finds breaches in a lawful tale: %v", breaches)
	}
	for sentence, test := range map[string]struct {
		happens func(*tale)
		want    string
	}{
		"a second cluster begins next to the first": {func(x *tale) {
			x.status.Waves[0].Clusters = []string{"eu1", "eu2"}
			x.grant(3, "eu1")
			x.target("eu1", x.permit(3), asBefore)
			x.grant(4, "eu2")
		}, "GrantsKeepWithinLimits"},
		"both begin by one grant":                 {func(x *tale) { x.grant(3, "eu1", "eu2") }, "GrantsKeepWithinLimits"},
		"a grant follows before the last is seen": {func(x *tale) { x.grant(3, "eu1"); x.grant(4, "eu2") }, "OneGrantAtATime"},
		"the number of the grant falls":           {func(x *tale) { x.grant(1, "eu1") }, "EpochAndSeqNeverFall"},
		"a paused release gets a grant": {func(x *tale) {
			x.status.Paused = true
			x.grant(3, "eu1")
		}, "NoGrantWhilePaused"},
		"a withdrawn version gets a grant": {func(x *tale) {
			x.status.Blocked = []api.FleetBlock{{Version: "version/v2", Epoch: 9}}
			x.grant(3, "eu1")
		}, "BlockedVersionGetsNoPermit"},
		"a cluster has failed, and another begins": {func(x *tale) {
			x.target("eu1", x.permit(1), func(s *api.FleetTargetStatus) { s.Phase, s.Failure = api.FleetTargetFailed, "Aborted" })
			x.grant(3, "eu2")
		}, "NoGrantAboveABudget"},
		"a permit has no grant": {func(x *tale) { x.target("eu1", x.permit(3), asBefore) }, "GrantBeforePermit"},
		"a permit has a grant that was committed without an answer": {func(x *tale) {
			x.unanswered("fleetrollouts", "status", "checkout")
			x.target("eu1", x.permit(3), asBefore)
		}, ""},
		"a permit was written without an answer": {func(x *tale) {
			x.grant(3, "eu1")
			x.unanswered("fleettargets", "", "checkout.eu1")
			x.commit("eu1", func(s *api.RolloutStatus) {
				permit := x.permit(3)
				s.Fleet.Permit = &permit
			})
		}, ""},
		"a permit falls":                     {func(x *tale) { x.target("eu2", x.permit(1), asBefore) }, "EpochAndSeqNeverFall"},
		"a cluster takes in a forged permit": {func(x *tale) { x.begins("eu1", x.permit(7)) }, "PermitOfTheHub"},
		"a cluster uses a permit twice":      {func(x *tale) { x.begins("eu1", x.permit(1)) }, "PermitBeginsOneRelease"},
		"a Rollout that was made again uses the permit of the one before": {func(x *tale) {
			x.members["eu1"].UID = "another Rollout"
			x.commit("eu1", func(*api.RolloutStatus) {})
		}, "PermitBeginsOneRelease"},
		"a cluster goes beyond its hold": {func(x *tale) {
			x.commit("eu1", func(s *api.RolloutStatus) {
				s.Fleet.Permit.HoldAt, s.Sluice.State, s.Sluice.Step = 1, string(rollout.StateBeforeUpgrade), 2
			})
		}, "NothingBeyondThePermit"},
		"a cluster begins after the end of its permit": {func(x *tale) {
			x.now = x.now.Add(time.Hour)
			x.commit("eu1", func(s *api.RolloutStatus) { s.Sluice.State = string(rollout.StateBeforeUpgrade) })
		}, "NothingBeyondThePermit"},
		"a cluster begins another template": {func(x *tale) {
			x.commit("eu1", func(s *api.RolloutStatus) {
				s.Sluice.State, s.Sluice.CanaryRevision = string(rollout.StateBeforeUpgrade), "another"
			})
		}, "NothingBeyondThePermit"},
		"a cluster begins a version that it blocks": {func(x *tale) {
			x.withdraw()
			x.commit("eu1", func(s *api.RolloutStatus) { s.Sluice.State = string(rollout.StateBeforeUpgrade) })
		}, "WithdrawnVersionStaysOut"},
		"all pods run a version without a permit": {func(x *tale) { x.completes("eu1", "v9") }, "NothingBeyondThePermit"},
		"a pod runs a version without a permit":   {func(x *tale) { x.pod("eu1", "v9") }, "NothingBeyondThePermit"},
		"a wave passes without a proof": {func(x *tale) {
			x.status.Release, x.status.Began = &api.FleetRelease{Version: "v3"}, 10
			x.hubCommit(func(s *api.FleetRolloutStatus) { s.Waves[0].Stage = api.FleetWaveGoing })
			x.hubCommit(func(s *api.FleetRolloutStatus) { s.Waves[0].Stage = api.FleetWavePassed })
		}, "EachPassedWaveHasProof"},
		"a withdrawn version runs": {func(x *tale) {
			x.withdraw()
			x.hubCommit(func(s *api.FleetRolloutStatus) { s.Phase = api.FleetPhaseWithdrawn })
		}, "NothingWithdrawnRuns"},
		"a pod of a withdrawn version is left": {func(x *tale) {
			x.withdraw()
			x.completes("eu1", "v1")
			x.answered()
		}, "WithdrawnMeansGone"},
	} {
		t.Run(sentence, func(t *testing.T) {
			x := lawful(t)
			test.happens(x)
			breaches := breachesOf(x.evidence)
			if test.want == "" {
				if len(breaches) > 0 {
					t.Errorf("the judge finds %q in what is lawful", breaches)
				}
				return
			}
			if !slices.ContainsFunc(breaches, func(b string) bool { return strings.Contains(b, test.want) }) {
				t.Errorf("the judge finds %q, want a breach of %s", breaches, test.want)
			}
		})
	}
	x := lawful(t)
	x.withdraw()
	x.pods["eu1"] = append(x.pods["eu1"], podEvent{at: x.now, version: x.version, name: "pod of v2", tag: "v2", gone: true})
	x.completes("eu1", "v1")
	x.answered()
	if breaches := breachesOf(x.evidence); len(breaches) > 0 {
		t.Errorf("the judge finds breaches in a lawful withdrawal: %v", breaches)
	}
}
