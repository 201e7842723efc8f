package kube_test

import (
	"testing"

	"sluice.dev/sluice/pkg/rollout"
)

func TestWhatIsAtRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled()
	k := w.watching()
	is := func(want bool, what string) {
		t.Helper()
		w.eventually(what, func() bool { return k.IsIdle(w.key("web")) == want })
	}
	is(false, "a Rollout that nobody has looked at is not at rest")
	w.adopted()
	is(true, "one whose release is over is at rest, however much of its gateway is known")
	w.kubectl("", "patch", "rollout", "web", "--type=merge", "-p", `{"spec":{"strategy":{"canary":{"steps":[{"replicas":1,"traffic":"30%"}]}}}}`)
	is(false, "one that was changed is not")
	w.adopted()
	is(true, "once somebody has looked it is")
	w.kubectl("", "patch", "deployment", "web", "--type=strategic", "-p", heldImage("2"))
	is(false, "one whose workload is held is not")
	w.drive("web", rollout.StatePaused)
	is(false, "one in a release is not")
}
