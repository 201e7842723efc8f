package traffic

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
)

func TestAScriptKnowsForWhatAndOfWhichObjectItIsCalled(t *testing.T) {
	t.Parallel()
	live := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kuma.io/v1alpha1", "kind": "TrafficRoute", "mesh": "default", "metadata": map[string]any{"name": "web", "namespace": "shop", "uid": "u"},
		"spec": map[string]any{}, "status": map[string]any{"seen": true},
	}}
	object := map[string]any{"apiVersion": "kuma.io/v1alpha1", "kind": "TrafficRoute", "mesh": "default", "metadata": map[string]any{"name": "web", "namespace": "shop"}}
	type knows struct {
		Stage script.Stage
		Step  int
		Of    map[string]any
	}
	for name, c := range map[string]struct {
		rel  Release
		step int32
		want knows
	}{
		"a step":                       {Release{UID: "r", Name: "web", Service: "web", CanaryService: "web-canary"}, 2, knows{script.StageStep, 2, object}},
		"a release that is taken back": {Release{UID: "r", Name: "web", Service: "web", CanaryService: "web-canary"}, -40, knows{script.StageAbort, 0, object}},
		"a TrafficRouting":             {Release{UID: "r", Name: "web", Kind: "TrafficRouting", Service: "web", CanaryService: "web"}, 1, knows{script.StageRouting, 0, object}},
	} {
		var got knows
		run := func(in script.Input) (script.Output, error) {
			got = knows{in.Stage, in.Step, in.Of}
			return script.Output{Spec: in.Spec}, nil
		}
		ObserveRoute(rollout.Ref{Kind: "TrafficRoute", Name: "web"}, live, c.rel, map[int32]Strategy{c.step: weight(20)}, run)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
