package deploy

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sluicedeploy "sluice.dev/sluice/deploy"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/preflight"
	"sluice.dev/sluice/test/world"
)

// otherInstallation is an installation in which no name is a default one.
func otherInstallation() api.Installation {
	return api.Installation{Namespace: "progressive", Watcher: "eyes", Executor: "hands", Analyzer: "scales"}
}

// Sluice works in a namespace and under service accounts of the user's choice: a new version is held, the hold survives the user's manifest, the release is
// carried out, and nothing is left after uninstalling.
func TestSluiceWorksInEachNamespaceUnderAnyServiceAccounts(t *testing.T) {
	t.Parallel()
	in := otherInstallation()
	w := world.ForTest(t, world.Options{Installation: in})
	ns := "shop"
	w.Do(t, "create", "namespace", ns)
	w.Judge(t, ns, world.Breaches, world.Overexposed, world.StableServes)
	manifest := world.Seed(t, "istio-walkthrough/workload.yaml") + "\n---\n" + world.Seed(t, "istio-walkthrough/virtualservice.yaml")
	w.Apply(t, ns, manifest+"\n---\n"+world.Seed(t, "istio-walkthrough/rollout.yaml"))
	w.Available(t, ns, "workload-demo")
	w.AwaitObject(t, ns, "deployment", "workload-demo", "to be adopted", func(u *unstructured.Unstructured) bool {
		return u != nil && u.GetAnnotations()[api.AnnotationRollout] == "rollouts-demo"
	})
	wantFit(t, w)

	w.Apply(t, ns, strings.Replace(manifest, "value: base", "value: canary", 1))
	w.Await(t, ns, "rollouts-demo", world.PausedAt(1))
	w.Apply(t, ns, strings.Replace(manifest, "value: base", "value: canary", 1)) // GitOps applies again what knows no hold
	if paused := w.Do(t, "-n", ns, "get", "deployment", "workload-demo", "-o", "jsonpath={.spec.paused}"); paused != "true" {
		t.Errorf("after another apply the Deployment has paused=%q", paused)
	}
	for step := 1; step < 4; step++ {
		w.Approve(t, ns, "rollouts-demo")
		if step < 3 {
			w.Await(t, ns, "rollouts-demo", world.PausedAt(int32(step+1)))
		}
	}
	w.Await(t, ns, "rollouts-demo", world.Healthy)
	if got := w.Do(t, "get", "namespaces", "-o", "name"); strings.Contains(got, api.DefaultNamespace) {
		t.Errorf("the cluster has the default namespace too:\n%s", got)
	}

	w.Do(t, "-n", ns, "delete", "rollout", "rollouts-demo")
	// The namespace stays, because the control plane of the test lacks the controller that releases the volume claim of NATS. So do the CRDs, because the
	// API server takes a minute to remove them.
	printed, err := sluicedeploy.Manifests(in, "policies", "rbac", "parts")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.KubectlStdin(t.Context(), string(printed), "delete", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	w.Apply(t, ns, strings.Replace(manifest, "value: base", "value: unmanaged", 1))
	w.Do(t, "-n", ns, "rollout", "status", "deployment/workload-demo", "--timeout=600s")
	left, err := w.KubectlStdin(t.Context(), string(printed), "get", "--ignore-not-found", "-o", "name", "-f", "-")
	if err != nil || left != "" {
		t.Errorf("uninstalling has left: %s, %v", left, err)
	}
}

// wantFit checks that the cluster is fit for its installation, and not for another one.
func wantFit(t *testing.T, w *world.World) {
	t.Helper()
	w.WantFit(t)
	other, err := preflight.New(w.Config, api.DefaultInstallation())
	if err != nil {
		t.Fatal(err)
	}
	unknown := preflight.Errors(other.CheckKnownExecutor(t.Context()))
	if len(unknown) != 10 || !slices.ContainsFunc(unknown, func(f preflight.Finding) bool { return strings.Contains(f.Message, w.Installation.ExecutorUser()) }) {
		t.Errorf("executors of another installation are known to %d of 10 policies: %+v", 10-len(unknown), unknown)
	}
}

// No name of the default installation is left in the manifests of another one, except names of objects.
func TestTheManifestsOfAnotherInstallationNameNoDefaultAccount(t *testing.T) {
	t.Parallel()
	printed, err := sluicedeploy.Manifests(otherInstallation(), "namespace", "crds", "policies", "rbac", "parts", "templates", "webhook")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(printed)) {
		if strings.Contains(line, api.DefaultNamespace) || strings.Contains(line, "serviceaccount:") && !strings.Contains(line, "serviceaccount:progressive:") {
			t.Errorf("the manifests have %s", line)
		}
	}
	accounts := 0
	for _, o := range world.ReadManifests(t, printed) {
		switch o["kind"] {
		case "ServiceAccount":
			accounts++
		case "ClusterRoleBinding", "RoleBinding":
			for _, s := range o["subjects"].([]any) {
				if name := s.(map[string]any)["name"].(string); !slices.Contains([]string{"eyes", "hands", "scales"}, name) {
					t.Errorf("%s binds a role to %s", o["metadata"], name)
				}
			}
		}
	}
	if accounts != 3 {
		t.Errorf("%d service accounts are made, want 3", accounts)
	}
}
