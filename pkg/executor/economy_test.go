package executor_test

import (
	"testing"

	"sluice.dev/sluice/test/world"
)

// The bounds of a release leave room: a busy machine has conflicts, and progress to show. Alone it takes 25 writes and two dry runs,
// and 26 reads. Two of the writes are its record, which is made when it begins and completed when it ends; one of the reads finds the
// records of older releases, of which the eleventh goes.
const (
	mostWrites = 30
	mostReads  = 41
)

// newVersion is the change of the walkthrough, as a merge patch.
const newVersion = `{"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"nginx","env":[{"name":"version","value":"canary"}]}]}}}}`

func TestAReleaseIsCheapForTheAPIServer(t *testing.T) {
	w := theWorld(t)
	ns := w.Namespace(t)
	for _, file := range []string{"workload.yaml", "virtualservice.yaml", "rollout.yaml"} {
		w.Apply(t, ns, world.Seed(t, "istio-walkthrough/"+file))
	}
	w.Available(t, ns, "workload-demo")
	w.Await(t, ns, "rollouts-demo", world.Healthy)
	before := shared.requests.of(ns)
	if err := w.Patch(t, ns, "deployment", "workload-demo", newVersion); err != nil {
		t.Fatal(err)
	}
	for step := range int32(3) {
		w.Await(t, ns, "rollouts-demo", world.PausedAt(step+1))
		if err := w.Patch(t, ns, "rollout", "rollouts-demo", `{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`, "status"); err != nil {
			t.Fatal(err)
		}
	}
	w.Await(t, ns, "rollouts-demo", world.Healthy)
	text, reads, writes := table(before, shared.requests.of(ns))
	t.Logf("one release of three steps:\n%s", text)
	if writes > mostWrites || reads > mostReads {
		t.Errorf("a release takes %d writes and %d reads, more than %d and %d", writes, reads, mostWrites, mostReads)
	}
}
