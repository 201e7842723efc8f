package executor_test

import (
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/test/world"
)

// The bounds of a release leave room for differences on a busy machine. Writes that meet a conflict do not count. One more write is due each time that progress
// may be shown. Alone a release takes 24 writes, two dry runs and 30 reads in canary style. In partition style it takes 27 writes, two dry runs and 49 reads,
// because a step is several writes of the workload. Two or three of the reads list the kind of policies in the cluster. The first release of an executor takes
// three more reads, which discover kinds. Two of the writes are the record of the release: one creates it at the begin, one completes it at the end. One of the
// reads lists the records of older releases; the executor deletes the eleventh.
//
// An executor reads everything of a Rollout live again after some time. If the Rollout is older than steady at the end of its release, the bound of the reads does
// not count.
type bounds struct{ writes, reads int }

const steady = 25 * time.Second

// progress is the shortest interval between two writes of a status that only show progress.
const progress = 5 * time.Second

// newVersion is the change of the walkthrough, as a merge patch.
const newVersion = `{"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"nginx","env":[{"name":"version","value":"canary"}]}]}}}}`

func TestAReleaseIsCheapForTheAPIServer(t *testing.T) {
	for style, most := range map[string]bounds{"canary": {30, 36}, "partition": {36, 60}} {
		t.Run(style, func(t *testing.T) { releaseCheaply(t, style, most) })
	}
}

func releaseCheaply(t *testing.T, style string, most bounds) {
	w := theWorld(t)
	ns, created := w.Namespace(t), time.Now()
	for _, file := range []string{"workload.yaml", "virtualservice.yaml", "rollout.yaml"} {
		manifest := world.Seed(t, "istio-walkthrough/"+file)
		if style == "partition" {
			manifest = strings.Replace(manifest, "enableExtraWorkloadForCanary: true", "enableExtraWorkloadForCanary: false", 1)
		}
		w.Apply(t, ns, manifest)
	}
	w.Available(t, ns, "workload-demo")
	w.Await(t, ns, "rollouts-demo", world.Healthy)
	before, began := shared.requests.of(ns), time.Now()
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
	t.Logf("one release of three steps in %s style:\n%s", style, text)
	took := time.Since(began)
	most.writes += int(took / progress)
	if writes > most.writes || reads > most.reads && time.Since(created) < steady {
		t.Errorf("a release takes %d writes and %d reads in %s, more than %d and %d", writes, reads, took, most.writes, most.reads)
	}
}
