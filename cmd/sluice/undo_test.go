package main

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/cmd/sluice/internal/revision"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

func TestUndoSaysWhatFollows(t *testing.T) {
	before, other := revision.Revision{Hash: "h1"}, revision.Revision{Hash: "h0"}
	releasing := func(state rollout.State, reason api.FinaliseReason) *api.SluiceStatus {
		return &api.SluiceStatus{State: string(state), StableRevision: "h1", FinaliseReason: reason}
	}
	for name, c := range map[string]struct {
		status *api.SluiceStatus
		to     revision.Revision
		want   string
	}{
		"in a step":                              {releasing(rollout.StatePaused, ""), before, "That is the stable version: the release is given up, and traffic goes back first."},
		"in a step, to another version":          {releasing(rollout.StatePaused, ""), other, "Another version replaces the one under way: its release begins with step 1."},
		"while a success is being completed":     {releasing(rollout.StateFinalising, api.FinaliseSuccess), before, "That is the version before: the release that is being completed is given up. The pods that serve stay until pods of that version are ready."},
		"then, to another version":               {releasing(rollout.StateFinalising, api.FinaliseSuccess), other, "This is a release of its own: it begins with step 1."},
		"after a success, to the version before": {releasing(rollout.StateIdle, api.FinaliseSuccess), before, "This is a release of its own: it begins with step 1."},
	} {
		t.Run(name, func(t *testing.T) {
			r := &api.Rollout{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}, Status: api.RolloutStatus{Phase: api.PhaseProgressing, Sluice: c.status}}
			w := revision.Workload{Object: &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"}}}
			got := (&cli{command: "sluice"}).whatFollows(r, api.RolloutResource(), w, c.to)
			if sentence := strings.TrimSuffix(got, " Follow it with: sluice status web -n shop"); sentence != c.want {
				t.Errorf("got  %s\nwant %s", sentence, c.want)
			}
		})
	}
}
