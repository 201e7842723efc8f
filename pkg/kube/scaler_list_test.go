package kube

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/rollout"
)

func TestAListOfAutoscalersIsGoodEnough(t *testing.T) {
	t.Parallel()
	scales := func(name string) autoscaler {
		return autoscaler{live: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": map[string]any{"name": "web"},
			"spec": map[string]any{"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}},
		}}}
	}
	atWork, parked, another := scales("web"), scales("web-DisableByRollout"), scales("other")
	for sentence, c := range map[string]struct {
		state rollout.State
		list  []autoscaler
		want  bool
	}{
		"not at rest":                               {rollout.StateIdle, nil, false},
		"nor when a release begins":                 {rollout.StateInitializing, nil, false},
		"in a step whatever it shows":               {rollout.StatePaused, []autoscaler{atWork}, true},
		"at the end while they are off":             {rollout.StateFinalising, []autoscaler{parked, another}, true},
		"not one that may be from before they were": {rollout.StateFinalising, []autoscaler{parked, atWork}, false},
		"nor after an abort":                        {rollout.StateAborted, []autoscaler{atWork}, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			got := cachedListSuffices(c.list, c.state, rollout.Ref{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"})
			if got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
