package workload_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

func takeOverPatch(o workload.Object) workload.Patch {
	return o.TakeOverWorkload("web", rollout.Budget{})
}
func retreat(o workload.Object) workload.Patch           { return o.RemoveSurge() }
func strategyWithSurge(o workload.Object) workload.Patch { return o.EndSurge() }

func room(n int32) func(workload.Object) workload.Patch {
	return func(o workload.Object) workload.Patch { return o.SetSurge(rollout.Budget{Surge: n}) }
}

// told is a CloneSet that is surged to so many replicas. Its owner wants ten, and a second of readiness.
func told(n, partition string) change {
	return func(u *unstructured.Unstructured) {
		cloneSet.owned(u)
		underWay(u)
		set(n, "spec", "replicas")(u)
		set("2147483646", "spec", "minReadySeconds")(u)
		strategy(`{maxSurge: 1, partition: ` + partition + `, paused: false}`)(u)
		for field, text := range map[string]string{"partition": "", "paused": "false", "replicas": "10", "minReadySeconds": "1", "scaleMaxUnavailable": "20%"} {
			original(field, text)(u)
		}
		note("sluice.dev/surge-replicas", n)(u)
	}
}

// owners is the CloneSet as its owner wants it.
func owners(u *unstructured.Unstructured) {
	cloneSet.owned(u)
	set("1", "spec", "minReadySeconds")(u)
	set(`{maxUnavailable: "20%"}`, "spec", "scaleStrategy")(u)
	strategy(`{maxSurge: 1}`)(u)
}

func heldOnly(u *unstructured.Unstructured) {
	owners(u)
	underWay(u)
	strategy(`{maxSurge: 1, partition: "100%", paused: false}`)(u)
	original("partition", "")(u)
	original("paused", "false")(u)
}

// newer has another template than its current revision.
func newer(u *unstructured.Unstructured) { set("web-v1", "status", "currentRevision")(u) }

func TestPatchesOfACloneSetThatIsWidened(t *testing.T) {
	t.Parallel()
	scaled := func(n string) change { return set(n, "spec", "replicas") }
	wish := func(n string) change { return original("replicas", n) }
	free := strategy(`{maxSurge: 1, paused: false}`)
	cloneSet.play(t, map[string]patchCase{
		"one that runs is parked":    {[]change{owners}, takeOverPatch, []change{told("10", `"100%"`)}},
		"one that is held is parked": {[]change{heldOnly}, takeOverPatch, []change{told("10", `"100%"`)}},
		"one with pods too many is parked": {[]change{heldOnly}, func(o workload.Object) workload.Patch { return o.TakeOverWorkload("web", rollout.Budget{Surge: 2}) },
			[]change{told("12", `"100%"`)}},
		"parked again it keeps its room":        {[]change{told("14", "10"), set("5", "spec", "minReadySeconds")}, takeOverPatch, []change{told("14", `"100%"`)}},
		"it gets room":                          {[]change{told("10", `"100%"`)}, room(4), []change{told("14", "10")}},
		"it gets more room":                     {[]change{told("14", "10")}, room(10), []change{told("20", "10")}},
		"what somebody changed is ours again":   {[]change{told("14", "10"), set("5", "spec", "minReadySeconds"), set(`{maxUnavailable: 1}`, "spec", "scaleStrategy")}, room(4), []change{told("14", "10")}},
		"room beside other replicas":            {[]change{told("14", "10"), wish("12")}, room(6), []change{told("18", "12"), wish("12")}},
		"room beside replicas by a subresource": {[]change{told("14", "10"), scaled("12")}, room(6), []change{told("18", "12"), wish("12")}},
		"held again it keeps its room":          {[]change{told("14", "10")}, hold, []change{told("14", `"100%"`)}},
		"it has no room for what is not wanted": {[]change{told("14", "10"), newer}, retreat, []change{told("10", `"100%"`), newer}},
		"it has no room beside its own version": {[]change{told("14", "10")}, retreat, []change{told("10", "0"), free}},
		"it is no longer widened":               {[]change{told("14", "10")}, strategyWithSurge, []change{heldOnly}},
		"nor one whose owner wants other ones":  {[]change{told("14", "10"), wish("12")}, strategyWithSurge, []change{heldOnly, scaled("12")}},
		"nor one that was scaled":               {[]change{told("14", "10"), scaled("0")}, strategyWithSurge, []change{heldOnly, scaled("0")}},
		"it is let go":                          {[]change{told("14", "10")}, resume, []change{owners}},
		"it is let go after a wish":             {[]change{told("14", "10"), wish("12")}, resume, []change{owners, scaled("12")}},
		"it is let go after it was scaled":      {[]change{told("14", "10"), scaled("7")}, resume, []change{owners, scaled("7")}},
		"it is let go with nonsense in it":      {[]change{told("14", "10"), wish("many")}, resume, []change{owners, scaled("14")}},
		"it is disowned": {[]change{told("14", "10")}, disown, []change{
			set("1", "spec", "minReadySeconds"), set(`{maxUnavailable: "20%"}`, "spec", "scaleStrategy"), strategy(`{maxSurge: 1}`),
		}},
	})
}

func TestHowACloneSetIsSeenToBeWidened(t *testing.T) {
	t.Parallel()
	type seen struct {
		Widened, Parked, Paused, Backwards bool
		Replicas, Room                     int32
		Partition                          rollout.Amount
	}
	all, ten := rollout.Amount{Value: 100, Percent: true}, rollout.Amount{Value: 10}
	revision := &appsv1.ControllerRevision{}
	revision.Name = "web-v1"
	for name, c := range map[string]struct {
		changes []change
		want    seen
	}{
		"its owner's":              {[]change{owners}, seen{Replicas: 10}},
		"held":                     {[]change{heldOnly, newer}, seen{Parked: true, Paused: true, Replicas: 10, Partition: all}},
		"parked":                   {[]change{told("10", `"100%"`), newer}, seen{true, true, true, true, 10, 0, all}},
		"with room":                {[]change{told("14", "10"), newer}, seen{true, true, false, false, 10, 4, ten}},
		"held with room":           {[]change{told("14", `"100%"`), newer}, seen{true, true, true, false, 10, 4, all}},
		"of its own version":       {[]change{told("10", "0")}, seen{true, true, false, true, 10, 0, rollout.Amount{}}},
		"its owner wants more":     {[]change{told("14", "10"), original("replicas", "12"), newer}, seen{true, true, false, false, 12, 2, ten}},
		"somebody scaled it":       {[]change{told("14", "10"), set("12", "spec", "replicas"), newer}, seen{true, true, false, false, 12, 0, ten}},
		"somebody scaled it to 0":  {[]change{told("14", "10"), set("0", "spec", "replicas"), newer}, seen{true, true, true, true, 0, 0, ten}},
		"it counts available pods": {[]change{told("14", "10"), set("5", "spec", "minReadySeconds"), newer}, seen{true, false, false, false, 10, 4, ten}},
		"it scales step by step":   {[]change{told("14", "10"), set(`{maxUnavailable: 1}`, "spec", "scaleStrategy"), newer}, seen{true, false, false, false, 10, 4, ten}},
	} {
		w := workload.Object{Live: cloneSet.of(c.changes...)}.ObserveWorkload("web")
		if diff := cmp.Diff(c.want, seen{w.Surged, w.TakenOver, w.Paused, w.ReplicaSetsFrozen, w.DesiredReplicas, w.Budget.Surge, w.Partition}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if w := statefulSet.object(told("14", "10")).ObserveWorkload("web"); w.Surged || w.DesiredReplicas != 14 {
		t.Errorf("a StatefulSet is seen as %+v", w)
	}
}

// anyWidth is the workload in any state of a blue-green release, with a recorded value that no owner wrote.
func anyWidth(t *rapid.T, u *unstructured.Unstructured) *unstructured.Unstructured {
	pods := int32(rapid.IntRange(1, 12).Draw(t, "room"))
	u = merged(t, u, workload.Object{Live: u}.TakeOverWorkload("web", rollout.Budget{Surge: pods / 2}))
	for _, patch := range rapid.SliceOfN(rapid.SampledFrom([]func(workload.Object) workload.Patch{room(pods), retreat, strategyWithSurge, takeOverPatch}), 1, 3).Draw(t, "patches") {
		u = merged(t, u, patch(workload.Object{Live: u}))
	}
	w := workload.Object{Live: u}.ObserveWorkload("web")
	if told, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas"); told != int64(w.DesiredReplicas+w.Budget.Surge) {
		t.Fatal(fmt.Sprintf("it is told to run %d pods, and seen to run %d and %d", told, w.DesiredReplicas, w.Budget.Surge))
	}
	return merged(t, u, workload.Object{Live: u}.HoldWorkload("web"))
}
