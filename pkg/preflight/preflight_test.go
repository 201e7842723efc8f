package preflight_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
	"sluice.dev/sluice/pkg/preflight"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/ports"
)

func TestTheVersionOfTheServer(t *testing.T) {
	for name, test := range map[string]struct {
		minor string
		want  preflight.Level
	}{
		"1.36 is new enough":                   {"36", preflight.LevelOK},
		"1.36 of a vendor is new enough":       {"36+", preflight.LevelOK},
		"1.35 has the webhook":                 {"35", preflight.LevelOK},
		"1.30 has the webhook":                 {"30", preflight.LevelOK},
		"1.29 is too old":                      {"29", preflight.LevelWarning},
		"what is no number is taken as it is":  {"next", preflight.LevelOK},
		"versions of three digits are numbers": {"100", preflight.LevelOK},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"major":"1","minor":%q,"gitVersion":"v1.%[1]s.0"}`, test.minor)
			}))
			defer server.Close()
			got, reachable := look(t, &rest.Config{Host: server.URL}).CheckServer(t.Context())
			if !reachable || got.Level != test.want {
				t.Errorf("got %+v, reachable %v, want level %s", got, reachable, test.want)
			}
		})
	}
}

func TestAServerThatDoesNotAnswerIsTheOnlyFinding(t *testing.T) {
	address := "http://" + ports.Address(t)
	findings, err := look(t, &rest.Config{Host: address}).CheckBeforeStart(t.Context())
	if err == nil || len(findings) != 1 || findings[0].Check != "server" {
		t.Errorf("got %v and %v, want one error about the server", findings, err)
	}
}

func look(t *testing.T, config *rest.Config) *preflight.Cluster {
	t.Helper()
	c, err := preflight.New(config, api.DefaultInstallation())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// world is a cluster that the parts of the test below change one after the other.
type world struct {
	*testing.T
	cluster *controlplane.Cluster
	look    *preflight.Cluster
}

func (w world) apply(manifests ...string) {
	w.Helper()
	args := []string{"apply", "--server-side", "--force-conflicts"}
	for _, m := range manifests {
		args = append(args, "-f", m)
	}
	if _, err := w.cluster.Kubectl(w.Context(), args...); err != nil {
		w.Fatal(err)
	}
}

func (w world) kubectl(args ...string) string {
	w.Helper()
	out, err := w.cluster.Kubectl(w.Context(), args...)
	if err != nil {
		w.Fatal(err)
	}
	return out
}

// say lists findings as "level check: message", with what the API server words itself cut off.
func say(findings ...preflight.Finding) []string {
	list := []string{}
	for _, f := range findings {
		message, _, _ := strings.Cut(f.Message, " could not be looked at: ")
		list = append(list, fmt.Sprintf("%s %s: %s", f.Level, f.Check, message))
	}
	return list
}

func (w world) expect(got []preflight.Finding, want ...string) {
	w.Helper()
	if diff := cmp.Diff(append([]string{}, want...), say(got...)); diff != "" {
		w.Errorf("findings (-want +got):\n%s", diff)
	}
	for _, f := range got {
		if (f.Level == preflight.LevelOK) != (f.Remedy == "") {
			w.Errorf("%s finding %q has remedy %q", f.Level, f.Message, f.Remedy)
		}
	}
}

func TestWhatIsFoundInACluster(t *testing.T) {
	cluster := controlplane.ForTest(t, controlplane.Options{})
	for _, part := range []struct {
		name string
		run  func(w world)
	}{
		{"without CRDs an executor refuses to start", withoutCRDs},
		{"CRDs of OpenKruise lose our state", foreignCRDs},
		{"our CRDs are fine", ourCRDs},
		{"absent policies are warnings", absentPolicies},
		{"absent policies of a hub are warnings", hubPolicies},
		{"policies without their own binding are warnings", boundPolicies},
		{"the webhook stands in for absent policies", standIn},
		{"OpenKruise's webhooks are errors", webhooks},
		{"only a lease that is being renewed is an error", leases},
		{"OpenKruise's controller is found in any namespace", deployments},
		{"whoever else sets the phase of a Rollout is named", writers},
		{"a rollout-id that lets a change through is named", rolloutIDs},
		{"what a tool delivers to a fleet is told", fleetDelivery},
		{"what a tool deletes while stable pods need it is named", stableNeeds},
		{"policies that do not cover a canary are named", uncoveredCanaries},
		{"rights are asked for one by one", rights},
		{"what may not be read is said to be unread", unreadable},
		{"who may not impersonate is told how to get there", impersonation},
		{"who the policies do not know may not be an executor", known},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(world{t, cluster, look(t, cluster.Config)}) })
	}
}

func withoutCRDs(w world) {
	w.expect(w.look.CheckCRDs(w.Context()),
		"error CRDs: This cluster does not serve Rollout v1beta1, Rollout v1alpha1, TrafficRouting v1alpha1, RolloutHistory v1alpha1, "+
			"AnalysisTemplate v1alpha1, ClusterAnalysisTemplate v1alpha1, FleetMember v1alpha1, FleetPlan v1alpha1, FleetRollout v1alpha1, FleetTarget v1alpha1.")
	_, err := w.look.CheckBeforeStart(w.Context())
	if err == nil || !strings.Contains(err.Error(), "Install the CRDs: sluice install --print --part crds | kubectl apply") {
		w.Errorf("got %v, want an error that says how to install the CRDs", err)
	}
}

// crds waits until discovery and the OpenAPI document have the wanted state: the API server publishes both a moment after the CRD.
func (w world) crds(want string) {
	w.Helper()
	var got []preflight.Finding
	err := wait.PollUntilContextTimeout(w.Context(), 50*time.Millisecond, 10*time.Minute, true, func(ctx context.Context) (bool, error) {
		got = w.look.CheckCRDs(ctx)
		return cmp.Equal(say(got...), []string{want}), nil
	})
	if err != nil {
		w.expect(got, want)
	}
}

func foreignCRDs(w world) {
	w.apply("../../deploy/crds")
	w.kubectl("wait", "--for=condition=Established", "crd", "--all")
	var removals []map[string]string
	for version := range 2 {
		removals = append(removals, map[string]string{"op": "remove",
			"path": fmt.Sprintf("/spec/versions/%d/schema/openAPIV3Schema/properties/status/properties/sluice", version)})
	}
	patch, err := json.Marshal(removals)
	if err != nil {
		w.Fatal(err)
	}
	w.kubectl("patch", "crd", "rollouts.rollouts.kruise.io", "--type=json", "-p", string(patch))
	w.crds("error CRDs: The CRD rollouts.rollouts.kruise.io is not Sluice's: it has no status.sluice, so that the state of releases would be lost.")
}

func ourCRDs(w world) {
	w.apply("../../deploy/crds")
	w.crds("ok CRDs: Rollout v1beta1 and v1alpha1, TrafficRouting, RolloutHistory, the analysis templates and the kinds of a fleet are installed.")
}

func absentPolicies(w world) {
	w.expect(w.look.CheckPolicies(w.Context()),
		"warning policies: MutatingAdmissionPolicy sluice-hold-cloneset, sluice-hold-daemonset, sluice-hold-deployment, sluice-hold-statefulset are not there, so a new version rolls out until an executor sees it.",
		"warning policies: MutatingAdmissionPolicy sluice-guard-cloneset, sluice-guard-daemonset, sluice-guard-deployment, sluice-guard-statefulset are not there, so a manifest that is applied again ends the hold of a release under way.",
		"warning policies: ValidatingAdmissionPolicy sluice-validate is not there, so mistakes in a Rollout are found only when it is released.",
		"warning policies: ValidatingAdmissionPolicy sluice-validate-executor is not there, so an executor of a version without fleets releases the Rollouts of a fleet without permits.",
		"warning policies: ValidatingAdmissionPolicy sluice-validate-deletion is not there, so a Rollout of a fleet can be deleted during its release without the verb override.",
		"warning policies: ValidatingAdmissionPolicy sluice-validate-workload is not there, so a second Rollout for a workload can be created, which then waits.")
	if _, err := w.look.CheckBeforeStart(w.Context()); err != nil {
		w.Errorf("an executor does not start without policies: %v", err)
	}
}

func boundPolicies(w world) {
	w.apply("../../deploy/policies")
	w.kubectl("delete", "mutatingadmissionpolicybinding", "sluice-hold-deployment")
	w.kubectl("delete", "mutatingadmissionpolicy", "sluice-hold-cloneset", "sluice-hold-statefulset")
	w.kubectl("patch", "validatingadmissionpolicybinding", "sluice-validate", "--type=merge", "-p", `{"spec":{"policyName":"other"}}`)
	w.expect(w.look.CheckPolicies(w.Context()),
		"warning policies: MutatingAdmissionPolicy sluice-hold-cloneset, sluice-hold-statefulset are not there, so a new version rolls out until an executor sees it.",
		"warning policies: MutatingAdmissionPolicyBinding sluice-hold-deployment is not there, so a new version rolls out until an executor sees it.",
		"ok policies: MutatingAdmissionPolicy sluice-guard-cloneset, sluice-guard-daemonset, sluice-guard-deployment, sluice-guard-statefulset are installed and bound.",
		"warning policies: ValidatingAdmissionPolicyBinding sluice-validate binds policy other instead of sluice-validate, so mistakes in a Rollout are found only when it is released.")
}

func webhooks(w world) {
	w.apply("testdata/webhooks.yaml")
	w.expect(w.look.CheckRivals(w.Context()),
		"error rivals: OpenKruise Rollouts is installed: MutatingWebhookConfiguration kruise-rollout-mutating-webhook-configuration exists. Two controllers on the same Rollouts undo each other's work.",
		"error rivals: OpenKruise Rollouts is installed: ValidatingWebhookConfiguration kruise-rollout-validating-webhook-configuration exists. Two controllers on the same Rollouts undo each other's work.")
	if _, err := w.look.CheckBeforeStart(w.Context()); err == nil {
		w.Error("an executor starts beside OpenKruise's webhooks")
	}
	w.kubectl("delete", "-f", "testdata/webhooks.yaml")
	w.expect(w.look.CheckRivals(w.Context()), "ok rivals: No other controller of Rollouts was found.")
}

func leases(w world) {
	w.kubectl("create", "namespace", "kruise-rollout")
	lease := func(renewed time.Time) {
		w.Helper()
		manifest := fmt.Sprintf(`{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: 71ddec2c.kruise.io, namespace: kruise-rollout},
			spec: {holderIdentity: kruise-0, leaseDurationSeconds: 15, renewTime: %q}}`, renewed.UTC().Format("2006-01-02T15:04:05.000000Z"))
		if _, err := w.cluster.KubectlStdin(w.Context(), manifest, "apply", "-f", "-"); err != nil {
			w.Fatal(err)
		}
	}
	lease(time.Now().Add(-time.Minute))
	w.expect(w.look.CheckRivals(w.Context()), "ok rivals: No other controller of Rollouts was found.")
	lease(time.Now())
	w.expect(w.look.CheckRivals(w.Context()),
		"error rivals: OpenKruise Rollouts is running: kruise-0 renews Lease kruise-rollout/71ddec2c.kruise.io. Two controllers on the same Rollouts undo each other's work.")
}

func deployments(w world) {
	w.kubectl("delete", "lease", "-n", "kruise-rollout", "--all")
	w.kubectl("create", "namespace", "elsewhere")
	w.kubectl("create", "deployment", "kruise-rollout-controller-manager", "-n", "elsewhere", "--image=manager")
	w.expect(w.look.CheckRivals(w.Context()),
		"error rivals: OpenKruise Rollouts is running: Deployment elsewhere/kruise-rollout-controller-manager is not scaled to 0. Two controllers on the same Rollouts undo each other's work.")
	w.kubectl("scale", "deployment", "-n", "elsewhere", "kruise-rollout-controller-manager", "--replicas=0")
	w.kubectl("wait", "deployment", "-n", "elsewhere", "kruise-rollout-controller-manager", "--for=jsonpath={.status.observedGeneration}=2", "--timeout=600s")
	err := wait.PollUntilContextTimeout(w.Context(), 50*time.Millisecond, 10*time.Minute, true, func(ctx context.Context) (bool, error) {
		return len(preflight.Errors(w.look.CheckRivals(ctx))) == 0, nil
	})
	if err != nil {
		w.Errorf("a controller that is scaled to 0 is a rival: %v", w.look.CheckRivals(w.Context()))
	}
}

func writers(w world) {
	const rollout = `{apiVersion: rollouts.kruise.io/v1beta1, kind: Rollout, metadata: {name: web, namespace: elsewhere}, spec: {
		workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}, strategy: {canary: {steps: [{replicas: 1}]}}}}`
	if _, err := w.cluster.KubectlStdin(w.Context(), rollout, "create", "-f", "-"); err != nil {
		w.Fatal(err)
	}
	set := func(manager, status string) {
		w.Helper()
		w.kubectl("patch", "rollout", "web", "-n", "elsewhere", "--subresource=status", "--type=merge", "--field-manager="+manager, "-p", `{"status":`+status+`}`)
	}
	set("sluice", `{"phase":"Initial","currentStepState":"StepPaused"}`)
	set("kubectl-approve", `{"currentStepState":"StepReady"}`)
	w.expect(w.look.CheckStatusWriters(w.Context()))
	set("kruise-rollout", `{"phase":"Healthy"}`)
	w.expect(w.look.CheckStatusWriters(w.Context()),
		"warning rivals: kruise-rollout has set the phase of Rollout elsewhere/web within the last 10 minutes; two controllers on the same Rollouts undo each other's work.")
	w.kubectl("delete", "rollout", "web", "-n", "elsewhere")
}

func rolloutIDs(w world) {
	const pods = `selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: "web:1"}]}}`
	manifest := ""
	for _, o := range []struct{ kind, name, id string }{
		{"Deployment", "web", "r1"}, {"DaemonSet", "agent", "r1"}, {"Deployment", "released", "r2"}, {"Gone", "gone", ""},
	} {
		version := "apps/v1"
		if o.kind == "Gone" {
			version = "example.com/v1"
		} else {
			manifest += fmt.Sprintf("{apiVersion: apps/v1, kind: %s, metadata: {name: %s, namespace: elsewhere, labels: {rollouts.kruise.io/workload-type: any}, "+
				"annotations: {rollouts.kruise.io/rollout-id: %s, sluice.dev/stable-rollout-id: r1}}, spec: {%s}}\n---\n", o.kind, o.name, o.id, pods)
		}
		manifest += fmt.Sprintf("{apiVersion: rollouts.kruise.io/v1beta1, kind: Rollout, metadata: {name: %s, namespace: elsewhere}, spec: {"+
			"workloadRef: {apiVersion: %s, kind: %s, name: %[1]s}, strategy: {canary: {steps: [{replicas: 1}]}}}}\n---\n", o.name, version, o.kind)
	}
	for _, verb := range []string{"create", "delete"} {
		if _, err := w.cluster.KubectlStdin(w.Context(), manifest, verb, "-f", "-"); err != nil {
			w.Fatal(err)
		}
		var want []string
		if verb == "create" {
			want = []string{"warning rollout-ids: A change of the pod template rolls out without a step while the annotation rollouts.kruise.io/rollout-id has the value of " +
				"the stable version, which is OpenKruise's rule. It does so for DaemonSet elsewhere/agent (r1), Deployment elsewhere/web (r1)."}
		}
		w.expect(w.look.CheckRolloutIDs(w.Context()), want...)
	}
}

// stableNeeds looks for objects that a tool deletes while stable pods need them. Of three generated objects, the tool keeps one, and no tool manages
// another.
func stableNeeds(w world) {
	const tracked = `argocd.argoproj.io/tracking-id: a`
	manifest := `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: elsewhere, labels: {rollouts.kruise.io/workload-type: any}}, spec: {
  selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: "web:1", envFrom: [
    {configMapRef: {name: pruned-7b2fk9mgtd}}, {configMapRef: {name: kept-7b2fk9mgtd}}, {configMapRef: {name: own-7b2fk9mgtd}}, {configMapRef: {name: missing-7b2fk9mgtd}}, {configMapRef: {name: plain}}]}]}}}}
---
{apiVersion: rollouts.kruise.io/v1beta1, kind: Rollout, metadata: {name: web, namespace: elsewhere}, spec: {
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}, strategy: {canary: {steps: [{replicas: 1}]}}}}
`
	for name, annotations := range map[string]string{
		"pruned-7b2fk9mgtd": tracked, "kept-7b2fk9mgtd": tracked + `, argocd.argoproj.io/sync-options: "Prune=false"`, "own-7b2fk9mgtd": "a: b", "plain": tracked,
	} {
		manifest += fmt.Sprintf("---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: elsewhere, annotations: {%s}}}\n", name, annotations)
	}
	for _, verb := range []string{"create", "delete"} {
		if _, err := w.cluster.KubectlStdin(w.Context(), manifest, verb, "-f", "-"); err != nil {
			w.Fatal(err)
		}
		var want []string
		if verb == "create" {
			want = []string{"warning stable-needs: When the next version is deployed, its tool deletes what pods of the stable version need while they still serve: " +
				"ConfigMap pruned-7b2fk9mgtd of elsewhere/web (Argo CD)."}
		}
		w.expect(w.look.CheckStableNeeds(w.Context()), want...)
	}
}

// fleetDelivery looks for what a GitOps tool delivers to a cluster of a fleet, and for a Rollout that no FleetRollout governs.
func fleetDelivery(w world) {
	const manifest = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: elsewhere, labels: {rollouts.kruise.io/workload-type: any}, annotations: {argocd.argoproj.io/tracking-id: a}}, spec: {
  selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: "web:1"}]}}}}
---
{apiVersion: rollouts.kruise.io/v1beta1, kind: Rollout, metadata: {name: web, namespace: elsewhere}, spec: {fleet: {namespace: elsewhere, name: web},
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}, strategy: {canary: {steps: [{replicas: 1}]}}}}
---
{apiVersion: rollouts.kruise.io/v1beta1, kind: Rollout, metadata: {name: other, namespace: elsewhere}, spec: {fleet: {namespace: shop, name: other},
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: other}, strategy: {canary: {steps: [{replicas: 1}]}}}}
---
{apiVersion: sluice.dev/v1alpha1, kind: FleetRollout, metadata: {name: web, namespace: elsewhere, labels: {kustomize.toolkit.fluxcd.io/name: fleet}}, spec: {waves: [{name: all}]}}
`
	for _, verb := range []string{"create", "delete"} {
		if _, err := w.cluster.KubectlStdin(w.Context(), manifest, verb, "-f", "-"); err != nil {
			w.Fatal(err)
		}
		var want []string
		if verb == "create" {
			want = []string{
				"warning fleet: Rollout elsewhere/other waits for ever: spec.fleet names FleetRollout shop/other, and only FleetRollout elsewhere/other governs it.",
				"ok fleet: A tool delivers workloads of a fleet: Deployment elsewhere/web (Argo CD). " + fleet.TruthPodTemplate + " " + fleet.TruthHeldDeployment,
				"ok fleet: " + fmt.Sprintf(fleet.TruthRepository, "FleetRollouts elsewhere/web (Flux)"),
			}
		}
		w.expect(w.look.CheckFleetDelivery(w.Context()), want...)
	}
}

// uncoveredCanaries looks for policies that cover a stable version only: one names its Service, and one pods by a label that the canary's do not have.
func uncoveredCanaries(w world) {
	const definition = "../../bin/crds/istio-security.yaml"
	w.kubectl("create", "-f", definition)
	w.kubectl("wait", "-f", definition, "--for=condition=Established", "--timeout=600s")
	const manifest = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: elsewhere, labels: {rollouts.kruise.io/workload-type: any}, annotations: {sluice.dev/rollout: web}}, spec: {
  selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web, track: stable}}, spec: {containers: [{name: c, image: "web:1"}]}}}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: elsewhere}, spec: {selector: {app: web}, ports: [{port: 80}]}}
---
{apiVersion: rollouts.kruise.io/v1beta1, kind: Rollout, metadata: {name: web, namespace: elsewhere}, spec: {workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web},
  strategy: {canary: {enableExtraWorkloadForCanary: true, patchPodTemplateMetadata: {labels: {track: canary}}, steps: [{replicas: 1, traffic: 20%}],
    trafficRoutings: [{service: web, customNetworkRefs: [{apiVersion: networking.istio.io/v1, kind: VirtualService, name: web}]}]}}}}
---
{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {name: callers, namespace: elsewhere}, spec: {targetRefs: [{group: "", kind: Service, name: web}]}}
---
{apiVersion: security.istio.io/v1, kind: PeerAuthentication, metadata: {name: strict, namespace: elsewhere}, spec: {selector: {matchLabels: {track: stable}}, mtls: {mode: STRICT}}}
---
{apiVersion: security.istio.io/v1, kind: PeerAuthentication, metadata: {name: all, namespace: elsewhere}, spec: {selector: {matchLabels: {app: web}}, mtls: {mode: STRICT}}}
`
	for _, verb := range []string{"create", "delete"} {
		if _, err := w.cluster.KubectlStdin(w.Context(), manifest, verb, "-f", "-"); err != nil {
			w.Fatal(err)
		}
		var want []string
		if verb == "create" {
			want = []string{"warning canary-policies: Policies cover the stable version and not the canary, which goes without them during a release: " +
				"AuthorizationPolicy callers names Service web and not Service web-canary (Rollout elsewhere/web), " +
				"PeerAuthentication strict selects pods by the label track=stable, and the pods of the canary have track=canary (Rollout elsewhere/web)."}
		}
		w.expect(w.look.CheckUncoveredCanaries(w.Context()), want...)
	}
}

func rights(w world) {
	grants := []preflight.Grant{{ServiceAccount: "sluice-executor", Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"rollouts.kruise.io"}, Resources: []string{"rollouts", "rollouts/status"}, Verbs: []string{"get", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"one"}, Verbs: []string{"get"}},
	}}}
	w.expect(w.look.CheckRBAC(w.Context(), grants),
		"error rbac: Service account sluice-executor lacks 5 of 5 rights: get rollouts.rollouts.kruise.io, patch rollouts.rollouts.kruise.io, "+
			"get rollouts.rollouts.kruise.io/status, patch rollouts.rollouts.kruise.io/status and 1 more.")
	w.kubectl("create", "namespace", "sluice-system")
	w.apply("testdata/roles.yaml")
	w.expect(w.look.CheckRBAC(w.Context(), grants),
		"error rbac: Service account sluice-executor lacks 1 of 5 rights: get configmaps one.")
	w.expect(w.look.CheckRBAC(w.Context(), []preflight.Grant{{ServiceAccount: "sluice-executor", Rules: grants[0].Rules[:1]}}),
		"ok rbac: Service account sluice-executor has all the rights that it needs.")
}

// as is the cluster as a user who may do nothing but what everybody may.
func (w world) as(user string) *preflight.Cluster {
	config := rest.CopyConfig(w.cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	return look(w.T, config)
}

func unreadable(w world) {
	nobody := w.as("nobody")
	w.expect(append(nobody.CheckPolicies(w.Context()), nobody.CheckRivals(w.Context())...),
		"warning policies: MutatingAdmissionPolicy sluice-hold-cloneset",
		"warning policies: MutatingAdmissionPolicy sluice-guard-cloneset",
		"warning policies: ValidatingAdmissionPolicy sluice-validate",
		"warning policies: ValidatingAdmissionPolicy sluice-validate-executor",
		"warning policies: ValidatingAdmissionPolicy sluice-validate-deletion",
		"warning policies: ValidatingAdmissionPolicy sluice-validate-workload",
		"warning rivals: MutatingWebhookConfiguration kruise-rollout-mutating-webhook-configuration",
		"warning rivals: ValidatingWebhookConfiguration kruise-rollout-validating-webhook-configuration",
		"warning rivals: Lease kruise-rollout/71ddec2c.kruise.io",
		"warning rivals: Deployment kruise-rollout-controller-manager")
	w.expect(nobody.CheckStatusWriters(w.Context()), "warning rivals: Writers of the status of Rollouts")
	w.expect(nobody.CheckRBAC(w.Context(), []preflight.Grant{{ServiceAccount: "sluice-executor", Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}}}),
		"warning rbac: The rights of service account sluice-executor")
	w.expect(nobody.CheckCRDs(w.Context()), "ok CRDs: Rollout v1beta1 and v1alpha1, TrafficRouting, RolloutHistory, the analysis templates and the kinds of a fleet are installed.")
}

func impersonation(w world) {
	if err := w.look.CheckImpersonation(w.Context(), "sluice-executor"); err != nil {
		w.Errorf("an administrator: %v", err)
	}
	err := w.as("nobody").CheckImpersonation(w.Context(), "sluice-executor")
	if err == nil || !strings.Contains(err.Error(), "kubectl create role sluice-impersonate -n sluice-system --verb=impersonate --resource=serviceaccounts") {
		w.Errorf("got %v, want an error that says how to get the right", err)
	}
	w.kubectl("create", "role", "sluice-impersonate", "-n", "sluice-system", "--verb=impersonate", "--resource=serviceaccounts")
	w.kubectl("create", "rolebinding", "sluice-impersonate", "-n", "sluice-system", "--role=sluice-impersonate", "--user=nobody")
	if waiting := wait.PollUntilContextTimeout(w.Context(), 50*time.Millisecond, 10*time.Minute, true, func(ctx context.Context) (bool, error) {
		err = w.as("nobody").CheckImpersonation(ctx, "sluice-executor")
		return err == nil, nil
	}); waiting != nil {
		w.Errorf("after what the error said: %v", err)
	}
	if err := w.as("nobody").CheckRoles(w.Context()); err == nil {
		w.Error("a user without roles passes for an executor")
	}
}

func known(w world) {
	w.apply("../../deploy/policies")
	if err := w.as("system:serviceaccount:sluice-system:sluice-executor").CheckKnownUser(w.Context()); err != nil {
		w.Errorf("the executor: %v", err)
	}
	if err := w.look.CheckKnownUser(w.Context()); err == nil || !strings.Contains(err.Error(), "leave out --impersonate=false") {
		w.Errorf("got %v, want an error that says what to do", err)
	}
	w.kubectl("delete", "validatingadmissionpolicybinding", "sluice-validate")
	if err := w.look.CheckKnownUser(w.Context()); err == nil {
		w.Error("the hold and guard policies are not looked at")
	}
	w.kubectl("delete", "--ignore-not-found", "-f", "../../deploy/policies")
	if err := w.look.CheckKnownUser(w.Context()); err != nil {
		w.Errorf("without policies: %v", err)
	}
}
