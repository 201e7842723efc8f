package kube

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/rollout"
)

func TestAListOfAutoscalersIsGoodEnough(t *testing.T) {
	t.Parallel()
	scales := func(name string) scaler {
		return scaler{live: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": map[string]any{"name": "web"},
			"spec": map[string]any{"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}},
		}}}
	}
	atWork, parked, another := scales("web"), scales("web-DisableByRollout"), scales("other")
	for sentence, c := range map[string]struct {
		state rollout.State
		list  []scaler
		want  bool
	}{
		"not at rest":                               {rollout.StateIdle, nil, false},
		"nor when a release begins":                 {rollout.StateInitializing, nil, false},
		"in a step whatever it shows":               {rollout.StatePaused, []scaler{atWork}, true},
		"at the end while they are off":             {rollout.StateFinalising, []scaler{parked, another}, true},
		"not one that may be from before they were": {rollout.StateFinalising, []scaler{parked, atWork}, false},
		"nor after an abort":                        {rollout.StateAborted, []scaler{atWork}, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			got := goodEnough(c.list, c.state, rollout.Ref{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"})
			if got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
