package preflight_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/preflight"
)

// anyCertificate is one that signs nothing, in PEM and base64 as caBundle has it.
const anyCertificate = `LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJkRENDQVJ1Z0F3SUJBZ0lVRHRlY2lDUjFzY1FyMmlQTk1QV0FiMXZqZEMwd0NnWUlLb1pJemowRUF3SXcKRHpFTk1Bc0dBMVVFQXd3RWRHVnpkREFnRncweU5qRXhNakF5TURFMk16aGFHQTh5TVRJMk1UQXlOekl3TVRZegpPRm93RHpFTk1Bc0dBMVVFQXd3RWRHVnpkREJaTUJNR0J5cUdTTTQ5QWdFR0NDcUdTTTQ5QXdFSEEwSUFCQU9SCmpsL1kwa1B2NzlobGFSdDIyWGk1dUUyZk9LZTZWZWxYdUh4VFJTTUtFSm5XQXZhSFNjVE1SdWh1d3hGakRhcEIKK1VuRTFYSjZCV2NzZ0o1Z2hBV2pVekJSTUIwR0ExVWREZ1FXQkJSN3VBTGt3ZHBWdC9QQUtjemduV0NaZEYvawpZekFmQmdOVkhTTUVHREFXZ0JSN3VBTGt3ZHBWdC9QQUtjemduV0NaZEYva1l6QVBCZ05WSFJNQkFmOEVCVEFECkFRSC9NQW9HQ0NxR1NNNDlCQU1DQTBjQU1FUUNJQVFpKzR1dmE4WEpwdE9kOGg5STlyRjczcThaOE5MYndBai8KWXRaUUEvdmZBaUJwNW1NSFAwcUQ3QWovOFZHWnNYckZFbzl3U05FRjFESUpnUy9VOFpoaG93PT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=`

func standIn(w world) {
	const hold, guard = "mutatingadmissionpolicy/sluice-hold-deployment", "mutatingadmissionpolicy/sluice-guard-deployment"
	// The last one belongs to the validating policy.
	ofHold := func() []preflight.Finding {
		all := w.look.CheckPolicies(w.Context())
		return all[:len(all)-1]
	}
	w.kubectl("delete", hold, guard)
	w.apply("../../deploy/webhook/webhook.yaml")
	w.expect(ofHold(),
		"warning policies: MutatingWebhookConfiguration sluice-hold has no caBundle, so it holds nothing, and every write on an adopted workload is refused.")
	w.kubectl("patch", "mutatingwebhookconfiguration", "sluice-hold", "--type=json", "-p",
		`[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"`+anyCertificate+`"}]`)
	w.expect(ofHold(),
		"ok policies: MutatingWebhookConfiguration sluice-hold is there and does what the policies would.")
	w.kubectl("delete", "mutatingwebhookconfiguration", "sluice-hold")
	for _, shape := range []string{"cloneset", "daemonset", "deployment", "statefulset"} {
		w.apply("../../deploy/policies/hold-"+shape+".yaml", "../../deploy/policies/guard-"+shape+".yaml")
	}
	w.expect(ofHold(),
		"ok policies: MutatingAdmissionPolicy sluice-hold-cloneset, sluice-hold-daemonset, sluice-hold-deployment, sluice-hold-statefulset are installed and bound.",
		"ok policies: MutatingAdmissionPolicy sluice-guard-cloneset, sluice-guard-daemonset, sluice-guard-deployment, sluice-guard-statefulset are installed and bound.")
}

// An older server answers for a kind that it does not know with a Status that names nothing, and for an object that is absent with one that does.
func TestAServerWithoutMutatingPoliciesNeedsTheWebhook(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		details := map[string]any{}
		if !strings.Contains(r.URL.Path, "mutatingadmissionpolic") {
			details["name"] = path.Base(r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "details": details, "code": 404})
	}))
	defer server.Close()
	findings := look(t, &rest.Config{Host: server.URL}).CheckPolicies(t.Context())
	want := []string{
		"warning policies: This server does not serve MutatingAdmissionPolicy v1, and the webhook that does the same is not there, so a new version rolls out until an executor sees it.",
		"warning policies: ValidatingAdmissionPolicy sluice-validate is not there, so mistakes in a Rollout are found only when it is released.",
		"warning policies: ValidatingAdmissionPolicy sluice-validate-executor is not there, so an executor of a version without fleets releases the Rollouts of a fleet without permits.",
		"warning policies: ValidatingAdmissionPolicy sluice-validate-deletion is not there, so a Rollout of a fleet can be deleted during its release without the verb override.",
		"warning policies: ValidatingAdmissionPolicy sluice-validate-workload is not there, so a second Rollout for a workload can be created, which then waits.",
	}
	if diff := cmp.Diff(want, say(findings...)); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(findings[0].Remedy, "--part webhook") {
		t.Errorf("the remedy is %q", findings[0].Remedy)
	}
}
