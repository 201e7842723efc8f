package workload_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

// anyStrategy is one that an owner may have written for such a workload.
func (s shape) anyStrategy(t *rapid.T) map[string]any {
	spec, parameters := map[string]any{}, map[string]any{}
	in := parameters
	if s == cloneSet {
		in = spec
	}
	partitions := []any{nil, int64(0), int64(3), int64(12), int64(32767)}
	if s == cloneSet {
		partitions = append(partitions, "0%", "35%", "100%")
	}
	if s != daemonSet {
		put(in, "partition", rapid.SampledFrom(partitions).Draw(t, "partition"))
	}
	if s == cloneSet || s == advancedStatefulSet || s == advancedDaemonSet {
		put(in, "paused", rapid.SampledFrom([]any{nil, false, true}).Draw(t, "paused"))
	}
	put(in, "maxUnavailable", rapid.SampledFrom([]any{nil, int64(2), "40%"}).Draw(t, "maxUnavailable"))
	if len(parameters) > 0 {
		spec["rollingUpdate"] = parameters
	}
	if s == cloneSet {
		put(spec, "type", rapid.SampledFrom([]any{nil, "InPlaceIfPossible"}).Draw(t, "type"))
		return spec
	}
	put(spec, "type", rapid.SampledFrom([]any{nil, "RollingUpdate", "OnDelete"}).Draw(t, "type"))
	if spec["type"] == "OnDelete" && s != daemonSet {
		delete(spec, "rollingUpdate")
	}
	return spec
}

func put(in map[string]any, key string, value any) {
	if value != nil {
		in[key] = value
	}
}

func TestWhateverAReleaseDoesItsOwnersSpecComesBack(t *testing.T) {
	t.Parallel()
	for name, s := range shapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				owners := s.of(s.owned)
				if strategy := s.anyStrategy(t); len(strategy) > 0 {
					owners.Object["spec"].(map[string]any)["updateStrategy"] = strategy
				}
				if s == cloneSet {
					put(owners.Object["spec"].(map[string]any), "minReadySeconds", rapid.SampledFrom([]any{nil, int64(30)}).Draw(t, "minReadySeconds"))
					put(owners.Object["spec"].(map[string]any), "scaleStrategy", rapid.SampledFrom([]any{
						nil, map[string]any{"maxUnavailable": "20%"}, map[string]any{"maxUnavailable": int64(2), "podsToDelete": []any{"web-1"}},
					}).Draw(t, "scaleStrategy"))
				}
				wants := wishes(owners)
				u := merged(t, owners, workload.Object{Live: owners}.HoldWorkload("web"))
				for range rapid.IntRange(0, 5).Draw(t, "steps") {
					seen := workload.Object{Live: u}.ObserveWorkload("web")
					if got := wishes(u); got != wants || !seen.TakenOver || !seen.Held {
						t.Fatalf("its owner wants %s, and is seen to want %s; parked: %t", wants, got, seen.TakenOver)
					}
					u = s.anyStep(t, u)
				}
				for _, end := range []func(workload.Object) workload.Patch{resume, disown} {
					if diff := cmp.Diff(plain(owners), plain(merged(t, u, end(workload.Object{Live: u})))); diff != "" {
						t.Fatalf("the spec differs (-owner's +after the release):\n%s", diff)
					}
				}
			})
		})
	}
}

// wishes are what the owner of a workload wants of it, whether it is held or not.
func wishes(u *unstructured.Unstructured) string {
	w := workload.Object{Live: u}.ObserveWorkload("web")
	return fmt.Sprintf("%d replicas, keeps %d, OnDelete: %t, paused: %t", w.DesiredReplicas, w.OwnerPartition, w.OwnerOnDelete, w.OwnerPaused)
}

// anyStep is what a step of a release, or a second hold, makes of the workload.
func (s shape) anyStep(t *rapid.T, u *unstructured.Unstructured) *unstructured.Unstructured {
	if rapid.Bool().Draw(t, "held again") {
		u = merged(t, u, workload.Object{Live: u}.HoldWorkload("web"))
		if !(workload.Object{Live: u}).ObserveWorkload("web").Paused {
			t.Fatal("it is held, and may go on")
		}
		return u
	}
	if s == cloneSet && rapid.Bool().Draw(t, "widened") {
		return anyWidth(t, u)
	}
	n := rollout.Amount{Value: int32(rapid.IntRange(0, 100).Draw(t, "partition")), Percent: rapid.Bool().Draw(t, "percent")}
	u = merged(t, u, workload.Object{Live: u}.SetPartition(n))
	got, all := workload.Object{Live: u}.ObserveWorkload("web").Partition, int32(10)
	want := n
	switch {
	case s == daemonSet:
		want = rollout.Amount{}
	case s != cloneSet && n.Percent && n.Value == 100:
		want = rollout.Amount{Value: 32767}
	case s != cloneSet && n.Percent:
		want = rollout.Amount{Value: n.Of(all)}
	}
	if got != want {
		t.Fatalf("the partition %s is seen as %s, want %s", n, got, want)
	}
	return u
}
