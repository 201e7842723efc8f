package watcher

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
)

func TestHeldRolloutsAreShownForAsLongAsTheyAreHeld(t *testing.T) {
	x := newIndex()
	name := types.NamespacedName{Namespace: "shop", Name: "checkout"}
	x.putDependencies(name, &dependencies{plan: &plan{}, stalled: "RouteMissing"})
	want := `
# HELP sluice_rollout_stalled 1 for a Rollout that waits until a user changes something, by reason.
# TYPE sluice_rollout_stalled gauge
sluice_rollout_stalled{namespace="shop",reason="RouteMissing",rollout="checkout"} 1
`
	if err := testutil.CollectAndCompare(newStalledGauge(x), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	x.putDependencies(name, &dependencies{plan: &plan{}})
	if n := testutil.CollectAndCount(newStalledGauge(x)); n != 0 {
		t.Errorf("%d Rollouts are shown as held, though none is", n)
	}
}
