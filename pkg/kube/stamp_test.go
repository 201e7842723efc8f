package kube_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/rollout"
)

// puts are the updates of VirtualServices that a client has sent.
type puts struct {
	mu   sync.Mutex
	list []string
}

func (p *puts) of(r *http.Request) {
	if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/virtualservices/") {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.URL.Query().Has("dryRun") {
		p.list = append(p.list, "tried")
	} else {
		p.list = append(p.list, "written")
	}
}

// since returns the updates since the last call.
func (p *puts) since() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.list
	p.list = nil
	return strings.Join(list, ", ")
}

// clientThatTells returns a client with the executor's rights whose updates of VirtualServices are counted.
func (w *world) clientThatTells() (*kube.Client, *puts) {
	w.t.Helper()
	sent := &puts{}
	return clientThrough(w.t, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		sent.of(r)
		return next.RoundTrip(r)
	}), sent
}

// exportAtHalf adds a field to a VirtualService with a weight of 50. The fields of the object do not show whether it
// will.
const exportAtHalf = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: NAME}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAME}}
    resourceRules: [{apiGroups: [networking.istio.io], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [virtualservices]}]
  matchConditions: [{name: half, expression: "object.spec.http.exists(h, h.route.exists(r, has(r.weight) && r.weight == 50))"}]
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/spec/exportTo", value: ["."]}]'}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME}`

// exporting puts the policy in force in the namespace of w.
func (w *world) exporting() {
	w.t.Helper()
	w.apply(strings.ReplaceAll(exportAtHalf, "NAME", w.namespace))
	w.t.Cleanup(func() {
		if _, err := plane.Kubectl(context.Background(), "delete", "mutatingadmissionpolicy/"+w.namespace, "mutatingadmissionpolicybinding/"+w.namespace); err != nil {
			w.t.Error(err)
		}
	})
	const half = `{"spec":{"http":[{"route":[{"destination":{"host":"web"},"weight":50},{"destination":{"host":"other"},"weight":50}]}]}}`
	w.eventually("the policy is in force", func() bool {
		// Until the API server knows the schema of the kind, it refuses the objects that the policy changes.
		out, err := plane.Kubectl(w.t.Context(), "-n", w.namespace, "patch", "virtualservice/web", "--type=merge", "--dry-run=server", "-p", half, "-o", "jsonpath={.spec.exportTo}")
		return err == nil && out == `["."]`
	})
}

func TestWhatTheAPIServerKeepsUnforeseenIsRecordedInASecondWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled()
	w.exporting()
	client, sent := w.clientThatTells()
	w.client = client
	steps := []struct {
		step            int32
		requests, field string
	}{
		{1, "tried, written", ""},        // the fields are not known yet
		{2, "written, written", `["."]`}, // the API server is believed to keep all fields, which is wrong
		{1, "tried, written", ""},        // the executor no longer relies on the known fields
		{2, "tried, written", `["."]`},   // the dry run predicts the digest
		{1, "tried, written", ""},        // and so on for ever
	}
	for i, c := range steps {
		route := w.observe("web").Seen.Routes[0]
		w.act(rollout.ApplyRoute{Object: route.Object, Step: c.step, Digest: route.Steps[c.step].Digest})
		if diff := cmp.Diff(c.requests, sent.since()); diff != "" {
			t.Errorf("%d: the updates for step %d (-want +got):\n%s", i, c.step, diff)
		}
		if diff := cmp.Diff(c.field, w.get("virtualservice/web", "{.spec.exportTo}")); diff != "" {
			t.Errorf("%d: what is kept of step %d (-want +got):\n%s", i, c.step, diff)
		}
		if seen := w.observe("web").Seen.Routes[0]; seen.Foreign != "" || !seen.Steps[c.step].Applied {
			t.Errorf("%d: step %d is seen as %+v", i, c.step, seen)
		}
	}
	w.act(rollout.RestoreRoute{Object: w.observe("web").Seen.Routes[0].Object})
	if diff := cmp.Diff(`{"hosts":["web.example.com"],"http":[{"route":[{"destination":{"host":"web"}}]}]}`, w.get("virtualservice/web", "{.spec}")); diff != "" {
		t.Errorf("what is given back (-want +got):\n%s", diff)
	}
}
