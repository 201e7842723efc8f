package kube_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
)

// plainRollout has no traffic routing.
const plainRollout = `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy: {canary: {enableExtraWorkloadForCanary: true, steps: [{replicas: 1}]}}`

func (w *world) record(s *kube.Snapshot, epoch int64) *api.RolloutHistory {
	w.t.Helper()
	h, err := w.client.CreateHistory(w.t.Context(), s.HistoryObjects(), api.RolloutHistoryStatus{Epoch: epoch, CanaryRevision: "v2"})
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

func TestARecordHoldsWhatTheOwnersWrote(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled()
	w.drive("web", rollout.StateIdle)
	w.kubectl("", "patch", "deployment", "web", "-p", heldImage("2"))
	s := w.drive("web", rollout.StatePaused)
	w.record(s, 1)
	got := w.kubectl("", "get", "rollouthistory", "web-1", "-o", `jsonpath={.metadata.labels.rollouts\.kruise\.io/rollout-name} {.metadata.labels.rollouts\.kruise\.io/rollout-id} `+
		`{.metadata.ownerReferences[0].kind} {.spec.rollout.name} {.spec.rollout.data.strategy.canary.steps[0].traffic} `+
		`{.spec.workload.apiVersion} {.spec.workload.kind} {.spec.workload.data.paused}{.spec.workload.data.template.spec.containers[0].image} `+
		`{.spec.service.data.selector} {.spec.trafficRouting.customNetworkRefs[0].kind} {.spec.trafficRouting.customNetworkRefs[0].data.http}`)
	want := `web v2 Rollout web 20% apps/v1 Deployment web:2 {"app":"web"} VirtualService [{"route":[{"destination":{"host":"web"}}]}]`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the record (-want +got):\n%s", diff)
	}
}

// OpenKruise Rollouts panics here.
func TestAReleaseWithoutTrafficOrWorkloadIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(plainRollout)
	w.record(w.observe("web"), 1)
	w.apply(deployment)
	w.record(w.observe("web"), 2)
	w.apply(strings.NewReplacer("apps/v1", "apps.kruise.io/v1alpha1", "Deployment", "DaemonSet", "{name: web}\nspec", "{name: other}\nspec",
		"enableExtraWorkloadForCanary: true, ", "").Replace(plainRollout))
	w.record(w.observe("other"), 1)
	got := w.kubectl("", "get", "rollouthistories", "-o", `jsonpath={range .items[*]}{.metadata.name} {.spec.workload.kind} {.spec.workload.data.replicas} {.spec.service} {.spec.trafficRouting};{end}`)
	if diff := cmp.Diff("other-1 DaemonSet  {} {};web-1 Deployment  {} {};web-2 Deployment 2 {} {};", got); diff != "" {
		t.Errorf("the records (-want +got):\n%s", diff)
	}
}

func TestWhatIsTooLargeIsLeftOutOfARecordAndSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(plainRollout, strings.Replace(deployment, "labels: {app: web}}\n    spec", "labels: {app: web}, annotations: {big: "+strings.Repeat("x", 200<<10)+"}}\n    spec", 1))
	w.kubectl("", "patch", "rollout", "web", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"strategy":{"canary":{"patchPodTemplateMetadata":{"annotations":{"big":%q}}}}}}`, strings.Repeat("y", 100<<10)))
	h := w.record(w.observe("web"), 1)
	if len(h.Spec.Workload.Data.Raw) > 0 || len(h.Spec.Rollout.Data.Raw) < 100<<10 || !strings.HasPrefix(h.Status.Message, "The spec of Deployment web is left out") {
		t.Errorf("the record holds %d bytes of the workload and %d of the Rollout, and says %q", len(h.Spec.Workload.Data.Raw), len(h.Spec.Rollout.Data.Raw), h.Status.Message)
	}
}

func TestOnlyTheNewestRecordsAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(plainRollout, strings.Replace(plainRollout, "name: web}\nspec", "name: web-1}\nspec", 1))
	s, other := w.observe("web"), w.observe("web-1")
	w.record(other, 1)
	for epoch := range int64(12) {
		w.record(s, epoch+1)
	}
	kept, err := w.client.PruneHistory(t.Context(), s.HistoryObjects(), 3)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{12, 11, 10}, kept); diff != "" {
		t.Errorf("the releases whose records are kept (-want +got):\n%s", diff)
	}
	got := w.kubectl("", "get", "rollouthistories", "-o", `jsonpath={.items[*].metadata.name}`)
	if diff := cmp.Diff("web-1-1 web-10 web-11 web-12", got); diff != "" {
		t.Errorf("the records (-want +got):\n%s", diff)
	}
}

func TestARecordIsWrittenOnlyAsItWasSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(plainRollout)
	s := w.observe("web")
	first := w.record(s, 1)
	if _, err := w.client.CreateHistory(t.Context(), s.HistoryObjects(), api.RolloutHistoryStatus{Epoch: 1}); !kube.IsHistoryAlreadyExists(err) {
		t.Errorf("a record was made twice: %v", err)
	}
	done := first.Status
	done.Outcome = api.OutcomeCompleted
	if _, err := w.client.UpdateHistory(t.Context(), first, done); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.UpdateHistory(t.Context(), first, done); !apiclient.IsConflict(err) {
		t.Errorf("a record that was written since is written: %v", err)
	}
	if h, err := w.client.GetHistory(t.Context(), s.HistoryObjects(), 1); err != nil || h.Status.Outcome != api.OutcomeCompleted {
		t.Errorf("it reads %+v, %v", h, err)
	}
	if _, err := w.client.GetHistory(t.Context(), s.HistoryObjects(), 2); !kube.IsHistoryNotFound(err) {
		t.Errorf("a record that does not exist reads as %v", err)
	}
}

// A Rollout that was created again counts its releases from one, and finds the records of the earlier Rollout.
func TestARecordOfAFormerRolloutMakesPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(plainRollout)
	w.record(w.observe("web"), 1)
	w.kubectl("", "delete", "rollout", "web", "--cascade=orphan")
	w.apply(plainRollout)
	s := w.observe("web")
	if _, err := w.client.GetHistory(t.Context(), s.HistoryObjects(), 1); !kube.IsHistoryNotFound(err) {
		t.Errorf("the record of another Rollout reads as %v", err)
	}
	w.record(s, 1)
	w.kubectl(`{"apiVersion":"rollouts.kruise.io/v1alpha1","kind":"RolloutHistory","metadata":{"name":"web-2"}}`, "create", "-f", "-")
	_, err := w.client.GetHistory(t.Context(), s.HistoryObjects(), 2)
	if problem, ok := apiclient.ProblemOf(err); !ok || !strings.Contains(problem.Message, "delete it: kubectl delete rollouthistory web-2") {
		t.Errorf("somebody else's object is taken for a record: %v", err)
	}
}

func TestAMissingRightToRecordIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(plainRollout)
	s := w.observe("web")
	_, err := w.clientAs("nobody").CreateHistory(t.Context(), s.HistoryObjects(), api.RolloutHistoryStatus{Epoch: 1})
	problem, ok := apiclient.ProblemOf(err)
	if want := "- apiGroups: [\"rollouts.kruise.io\"]\n  resources: [\"rollouthistories\"]\n  verbs: [\"create\"]\n"; !ok || !strings.Contains(problem.Message, want) {
		t.Errorf("the problem is %q, %v", problem.Message, err)
	}
}
