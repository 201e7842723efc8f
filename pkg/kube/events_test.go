package kube_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnEventOnARolloutThatNobodyHasLookedAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(canaryRollout)
	for range 2 {
		w.client.RecordOnKey(w.key("web"), true, "DeadLetter", "Something must be done.")
		w.client.FlushEvents()
	}
	w.client.RecordEvent(w.observe("web"), true, "DeadLetter", "Something must be done.")
	w.client.RecordOnKey(w.key("gone"), true, "DeadLetter", "Something must be done.")
	w.client.FlushEvents()
	got := w.kubectl("", "get", "events", "-o", `jsonpath={range .items[*]}{.involvedObject.kind}/{.involvedObject.name} {.type} {.reason} {.series.count};{end}`)
	if diff := cmp.Diff("Rollout/web Warning DeadLetter 3;", got); diff != "" {
		t.Errorf("the events differ (-want +got):\n%s", diff)
	}
}
