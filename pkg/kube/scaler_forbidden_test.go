package kube_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
)

// executorWithout creates a user with the rights of the shipped executor, except those on a resource.
func (w *world) executorWithout(resource string) (user string) {
	w.t.Helper()
	var role rbacv1.ClusterRole
	if err := json.Unmarshal([]byte(w.kubectl("", "get", "clusterrole", "sluice-executor", "-o", "json")), &role); err != nil {
		w.t.Fatal(err)
	}
	granted := len(role.Rules)
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, resource) })
	if len(role.Rules) != granted-1 {
		w.t.Fatalf("%d rules of the executor are about %s", granted-len(role.Rules), resource)
	}
	user = w.namespace
	role.ObjectMeta.Name, role.ResourceVersion, role.UID, role.ManagedFields = user, "", "", nil
	text, err := json.Marshal(role)
	if err != nil {
		w.t.Fatal(err)
	}
	w.kubectl(string(text), "create", "-f", "-")
	for _, name := range []string{user, "sluice-executor-gateways"} {
		w.kubectl("", "create", "clusterrolebinding", user+"-"+name, "--clusterrole="+name, "--user="+user)
	}
	return user
}

// whilePoliciesHold returns a client of a user for whom the admission policies are installed, as in every installation.
// Without them a Rollout shows that they are missing, before any other advice.
func (w *world) whilePoliciesHold(user string) *kube.Client {
	w.t.Helper()
	cfg := rest.CopyConfig(plane.Config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if !strings.HasPrefix(r.URL.Path, "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolic") {
				return next.RoundTrip(r)
			}
			installed := httptest.NewRecorder()
			installed.Header().Set("Content-Type", "application/json")
			_, err := installed.WriteString(`{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy"}`)
			return installed.Result(), err
		})
	})
	client, err := kube.New(cfg, kube.Options{Scripts: script.NewLibrary(luaconfiguration.FS, ""), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	return client
}

func TestAnExecutorThatMayNotListAutoscalersSaysSoAndGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.client = w.whilePoliciesHold(w.executorWithout("horizontalpodautoscalers"))
	w.apply(deployment, service, virtualService, autoscaler, strings.NewReplacer("canary:", "blueGreen:", "      enableExtraWorkloadForCanary: true\n", "",
		"      - {replicas: 1, traffic: 20%}\n      - {replicas: 100%, traffic: 50%}\n", "      - {replicas: 100%, traffic: 100%}\n").Replace(canaryRollout))
	w.kubectl("", "wait", "deployment/web", "--for=condition=Available", "--timeout=600s")
	w.adopted()
	w.kubectl("", "patch", "deployment/web", "--type=strategic", "-p", heldImage("2"))
	w.drive("web", rollout.StatePaused)

	held := func(field string) string {
		return w.get("rollout/web", `{.status.conditions[?(@.type=="Stalled")].`+field+`}`)
	}
	if diff := cmp.Diff("True Forbidden", held("status")+" "+held("reason")); diff != "" {
		t.Errorf("the condition Stalled of the paused release (-want +got):\n%s", diff)
	}
	says := "Sluice may not list horizontalpodautoscalers.autoscaling in namespace " + w.namespace + ". Install its roles again: sluice install --print --part rbac | kubectl apply --server-side -f -."
	if message := held("message"); !strings.HasPrefix(message, says) {
		t.Errorf("the condition says %q", message)
	}

	w.kubectl("", "patch", "rollout", "web", "--subresource=status", "--type=merge", "-p", `{"status":{"blueGreenStatus":{"currentStepState":"StepReady"}}}`)
	w.drive("web", rollout.StateFinalising)
	w.drive("web", rollout.StateIdle)
	if diff := cmp.Diff("Healthy Completed", w.get("rollout/web", "{.status.phase} {.status.blueGreenStatus.currentStepState}")); diff != "" {
		t.Errorf("the Rollout after its release (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("web", w.get("horizontalpodautoscaler/web", "{.spec.scaleTargetRef.name}")); diff != "" {
		t.Errorf("what the autoscaler scales (-want +got):\n%s", diff)
	}
}
