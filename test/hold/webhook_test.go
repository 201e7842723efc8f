package hold_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/hold"
	"sluice.dev/sluice/test/world"
)

// withWebhook installs and serves the webhook of the watcher.
func (b *bench) withWebhook(t testing.TB) *bench {
	t.Helper()
	b.kubectl(t, "", "create", "namespace", api.DefaultNamespace)
	b.stopWebhook = world.ServeWebhook(t, b.Cluster)
	return b.inForce(t)
}

// whileNobodyAnswers comes last, because the webhook is gone after it.
func whileNobodyAnswers(t *testing.T, b *bench) {
	b.create(t, "adopted", adopted)
	b.create(t, "nobodys")
	b.stopWebhook()
	image := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"demo:2"}]}}}}`)
	patch := func(b *bench, name string, subresources ...string) error {
		options := metav1.PatchOptions{FieldManager: b.manager}
		_, err := b.deployments.Patch(t.Context(), name, types.StrategicMergePatchType, image, options, subresources...)
		return err
	}
	if err := patch(b, "adopted"); !errors.IsInternalError(err) || !strings.Contains(err.Error(), "hold.sluice.dev") {
		t.Errorf("an update of an adopted Deployment is answered with %v", err)
	}
	if err := patch(b, "nobodys"); err != nil {
		t.Errorf("an update of a Deployment that nobody adopted is refused: %v", err)
	}
	if err := patch(b, "adopted", "scale"); err != nil {
		t.Errorf("a scale is refused: %v", err)
	}
	if err := patch(b.as(t, executor), "adopted"); err != nil {
		t.Errorf("the executor's update is refused: %v", err)
	}
	b.delete(t, "adopted")
	b.daemonsWhileNobodyAnswers(t)
}

// daemonsWhileNobodyAnswers checks the kind that every node runs: a workload that Sluice has not adopted must not wait
// for the webhook.
func (b *bench) daemonsWhileNobodyAnswers(t *testing.T) {
	t.Helper()
	for _, kind := range hold.Kinds(t) {
		if kind.Name != "DaemonSet" {
			continue
		}
		b := b.of(t, kind.Resource)
		for _, c := range kind.Cases {
			nobodys := c.Name == "what nobody adopted is not touched"
			if !nobodys && c.Name != "a new image is held in the same request" {
				continue
			}
			b.create(t, "daemons", func(u *unstructured.Unstructured) { c.Old.DeepCopyInto(u); u.SetName("daemons") })
			_, err := b.deployments.Patch(t.Context(), "daemons", types.MergePatchType, []byte(`{"spec":{"minReadySeconds":1}}`), metav1.PatchOptions{})
			if refused := errors.IsInternalError(err); refused == nobodys || err != nil && !refused {
				t.Errorf("%s: an update of a DaemonSet is answered with %v", c.Name, err)
			}
			b.delete(t, "daemons")
		}
	}
}
