package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// verdicts returns the ends that metrics decide about.
func verdicts() []end { return []end{promoted, stopped} }

// A failure of a measuring component must not change the verdict of the metrics, nor the number of measurements.
func TestWhateverGoesWrongWithAnAnalysisChangesNoVerdict(t *testing.T) {
	sideBySide(t)
	for _, e := range verdicts() {
		t.Run(string(e), func(t *testing.T) {
			y := newYard(t, variant{beside, e})
			clean, acts := rehearse(t, y)
			acts = slices.DeleteFunc(acts, func(a act) bool { return !a.measures() })
			play(t, y, clean, acts, selectionOfMeasured, nil)
		})
	}
}

// template measures each second a value that is 1 if the release is to pass. Two measurements decide.
const template = `apiVersion: sluice.dev/v1alpha1
kind: AnalysisTemplate
metadata: {name: %[1]s}
spec:
  metrics:
  - name: %[1]s
    interval: 1s
    count: %[2]d
    failureLimit: 1
    prometheus: {address: %[3]q, query: vector(%[4]d)}
    passWhen: value == 1
`

// createMeasured creates an application whose only step is measured.
func (y *yard) createMeasured(ctx context.Context, namespace string) error {
	count, value := 2, 1
	if y.end == stopped {
		count, value = 3, 0
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, template, app, count, y.prometheus.Address, value), &u.Object); err != nil {
		return err
	}
	if _, err := y.objects.Resource(api.AnalysisTemplateResource()).Namespace(namespace).Create(ctx, u, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the template: %w", err)
	}
	if err := (world.App{Name: app, Replicas: size, Steps: steps()[:1], GraceSeconds: graceSeconds}).Create(ctx, y.objects, namespace); err != nil {
		return err
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "add", "path": "/spec/strategy/canary/abortScaleDownDelaySeconds", "value": 0},
		{"op": "add", "path": "/spec/strategy/canary/steps/0/analysis", "value": map[string]any{"templates": []any{map[string]any{"name": app}}, "autoPromote": true}},
	})
	if err != nil {
		return err
	}
	_, err = y.objects.Resource(api.RolloutResource()).Namespace(namespace).Patch(ctx, app, types.JSONPatchType, patch, metav1.PatchOptions{})
	return err
}

// settled reports whether the release has reached the end of its variant.
func (y *yard) settled(live objects) bool {
	if y.end != stopped {
		return y.variant.settled(live)
	}
	r := live.rollout()
	if r.Status.Sluice == nil || rollout.State(r.Status.Sluice.State) != rollout.StateAborted || live["services/"+canary] != nil || live["deployments/"+canary] != nil {
		return false
	}
	for key, u := range live {
		if key == "replicasets/"+canary || u.GetDeletionTimestamp() != nil {
			return false
		}
	}
	// The status shows a little later that the canary is gone and that a wait is over.
	return weight(live["virtualservices/"+app]) == 0 && live.pods() == size && r.Status.CanaryStatus.PodTemplateHash == "" && waitsNoMore(r)
}
