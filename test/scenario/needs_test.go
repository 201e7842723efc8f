package scenario

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// stableNeeding releases a version whose pods need objects with these names. Then it begins a release of a version
// whose pods do not.
func (d *demo) stableNeeding(t *testing.T, configMaps []string, secrets ...string) {
	t.Helper()
	var from []string
	for _, name := range configMaps {
		from = append(from, fmt.Sprintf(`{"configMapRef":{"name":%q}}`, name))
	}
	for _, name := range secrets {
		from = append(from, fmt.Sprintf(`{"secretRef":{"name":%q}}`, name))
	}
	d.release(t, strings.Replace(version("needy"), `"env":`, `"envFrom":[`+strings.Join(from, ",")+`],"env":`, 1))
	d.await(t, world.PausedAt(1))
	d.command(t, api.CommandPromote)
	d.await(t, world.Healthy)
	d.release(t, version("plain"))
}

// A GitOps tool deletes hash-named ConfigMaps together with the manifests of their version, while the pods of that
// version still serve. The status shows the remedy, and the release goes on.
func TestWhatStablePodsNeedAndMayLoseIsTold(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	t.Run("gone", func(t *testing.T) {
		t.Parallel()
		d := aDemo(t, w, withSteps(t, "{replicas: 1, traffic: 20%}"))
		d.stableNeeding(t, []string{"web-7b2fk9mgtd"})
		d.atRisk(t, rollout.ReasonNeedGone, "Pods of the stable version need objects that do not exist, so no such pod can start again: ConfigMap web-7b2fk9mgtd;", "Prune=false", "prune: disabled")
		d.command(t, api.CommandPromote)
		d.await(t, func(r *api.Rollout) bool {
			return world.Healthy(r) && world.Condition(r, api.ConditionStableAtRisk) == nil
		})
	})
	t.Run("left to a tool", func(t *testing.T) {
		t.Parallel()
		d := aDemo(t, w, withSteps(t, "{replicas: 1, traffic: 20%}"))
		const tracked = `argocd.argoproj.io/tracking-id: "apps:/ConfigMap:shop/web"`
		d.w.Apply(t, d.ns, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web-7b2fk9mgtd, annotations: {"+tracked+"}}\n---\n"+
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept-7b2fk9mgtd, annotations: {"+tracked+`, argocd.argoproj.io/sync-options: "Prune=false"}}`)
		d.stableNeeding(t, []string{"web-7b2fk9mgtd", "kept-7b2fk9mgtd"}, "sealed-7b2fk9mgtd")
		message := d.atRisk(t, rollout.ReasonNeedPrunable,
			"Argo CD deletes ConfigMap web-7b2fk9mgtd once its sources do not have it; to keep it: kubectl annotate configmap web-7b2fk9mgtd -n "+d.ns+" --overwrite argocd.argoproj.io/sync-options=Prune=false",
			"a tool may delete Secret sealed-7b2fk9mgtd, which Sluice may not look at")
		if strings.Contains(message, "kept-") {
			t.Errorf("what the tool keeps is at no risk: %s", message)
		}
	})
}

// atRisk waits until a paused step reports the objects that stable pods may lose, and returns the message.
func (d *demo) atRisk(t *testing.T, reason api.Reason, says ...string) string {
	t.Helper()
	r := d.await(t, func(r *api.Rollout) bool {
		c := world.Condition(r, api.ConditionStableAtRisk)
		return world.PausedAt(1)(r) && c != nil && c.Status == corev1.ConditionTrue && c.Reason == reason
	})
	message := world.Condition(r, api.ConditionStableAtRisk).Message
	for _, part := range says {
		if !strings.Contains(message, part) {
			t.Errorf("the message is %q, and does not say %q", message, part)
		}
	}
	if held := world.Condition(r, api.ConditionStalled); held != nil {
		t.Errorf("the release is held: %s", held.Message)
	}
	return message
}
