package traffic

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/rollout"
)

// A new Rollout takes over the entry that an earlier one of its name left on an object. A TrafficRouting of that name does not.
func TestATrafficRoutingAndARolloutOfOneNameDoNotTakeEachOtherForTheSame(t *testing.T) {
	run := builtin(t, "VirtualService")
	live := shop(t, 0)
	for _, rel := range []Release{
		{UID: "u-1", Namespace: "default", Name: "web", Service: "web", CanaryService: "web-canary"},
		{UID: "u-2", Namespace: "default", Name: "web", Kind: "TrafficRouting", Service: "api", CanaryService: "api"},
		{UID: "u-3", Namespace: "default", Name: "web", Kind: "TrafficRouting", Service: "api", CanaryService: "api"},
	} {
		_, plan := ObserveRoute(rollout.Ref{}, live, rel, map[int32]Strategy{1: weight(20)}, run)
		desired, _, err := plan.DesiredObject(1)
		if err != nil {
			t.Fatal(err)
		}
		live = StampRendered(desired, ContentDigest(desired))
	}
	var got []string
	for _, rel := range ReleasesOn(live) {
		got = append(got, rel.Kind+" "+rel.UID)
	}
	if diff := cmp.Diff([]string{" u-1", "TrafficRouting u-3"}, got); diff != "" {
		t.Errorf("who routes (-want +got):\n%s", diff)
	}
}
