package validate

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admission "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"sluice.dev/sluice/deploy"
	"sluice.dev/sluice/pkg/api"
)

func TestTheAPIServerJudgesEveryCase(t *testing.T) {
	t.Parallel()
	s := start(t)
	for i, c := range Cases(t) {
		t.Run(c.File+"/"+c.Name, func(t *testing.T) {
			warnings, err := s.judge(t, c, fmt.Sprintf("case-%d", i))
			s.check(t, c, warnings, err)
		})
	}
	t.Run("the policies' types are right", s.checkTypes)
	t.Run("kubectl explains every field", s.checkExplain)
	t.Run("both versions show where the release is", s.checkColumns)
	t.Run("a Rollout from before the policies can still be let go", s.checkOld)
	t.Run("the largest Rollout is within the budget", s.checkLargest)
	t.Run("the templates that are shipped are accepted", s.checkShipped)
	t.Run("a Rollout is the same through both versions", s.checkVersions)
	t.Run("an explicit grace period of 0 stays, an absent one becomes 3", s.checkGrace)
	t.Run("only a user with the verb override interferes with a fleet", s.checkFleet)
	t.Run("a workload has one Rollout", s.checkSecond) // the last one, because the others make many for one workload
}

func (s server) check(t *testing.T, c Case, warnings []string, err error) {
	t.Helper()
	said := strings.Join(warnings, "\n")
	switch {
	case c.Expect == Reject && err == nil:
		t.Fatalf("it was accepted, want an error with %q", c.Message)
	case c.Expect == Reject && !s.older && !strings.Contains(err.Error(), c.Message):
		t.Fatalf("got the error\n  %v\nwant one with\n  %q", err, c.Message)
	case c.Expect == Reject && c.Schema == strings.Contains(err.Error(), "ValidatingAdmissionPolicy"):
		t.Fatalf("refused by the wrong one of schema and policy: %v", err)
	case c.Expect != Reject && err != nil:
		t.Fatal(err)
	case c.Expect == Warn && !strings.Contains(said, c.Message):
		t.Fatalf("got the warnings %q, want one with %q", said, c.Message)
	case c.Expect == Accept && said != "":
		t.Fatalf("accepted with the warnings %q, want none", said)
	}
}

// checkTypes waits for the control plane's check of the expressions' types.
func (s server) checkTypes(t *testing.T) {
	for _, name := range []string{"sluice-validate", "sluice-validate-executor", "sluice-validate-deletion", "sluice-validate-advice", "sluice-validate-fleet", "sluice-validate-fleettarget"} {
		s.checkTypesOf(t, name)
	}
}

func (s server) checkTypesOf(t *testing.T, name string) {
	t.Helper()
	s.kubectl(t, "wait", "--for=jsonpath={.status.observedGeneration}=1", "--timeout=600s",
		"validatingadmissionpolicy", name)
	var policy admission.ValidatingAdmissionPolicy
	out := s.kubectl(t, "get", "validatingadmissionpolicy", name, "-o", "json")
	if err := json.Unmarshal([]byte(out), &policy); err != nil {
		t.Fatal(err)
	}
	if check := policy.Status.TypeChecking; check != nil && len(check.ExpressionWarnings) > 0 {
		t.Errorf("%s: %v", name, check.ExpressionWarnings)
	}
}

func (s server) checkExplain(t *testing.T) {
	for _, version := range []string{api.V1alpha1, api.V1beta1} {
		out := s.kubectl(t, "explain", "rollouts.spec.strategy.canary.steps.traffic",
			"--api-version", api.Group+"/"+version)
		if want := "Share of the traffic for the new version"; !strings.Contains(out, want) {
			t.Errorf("%s: got %q, want %q in it", version, out, want)
		}
	}
}

// checkShipped applies the templates for every cluster, as a base and in printed form.
func (s server) checkShipped(t *testing.T) {
	built := s.kubectl(t, "apply", "--server-side", "--validate=strict", "-o", "name", "-k", filepath.Join(Root(t), "deploy", "templates"))
	printed, err := deploy.Manifests(api.DefaultInstallation(), "templates")
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.KubectlStdin(t.Context(), string(printed), "apply", "--server-side", "--validate=strict", "-o", "name", "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	sorted := func(text string) []string { return slices.Sorted(slices.Values(strings.Fields(text))) }
	if diff := cmp.Diff(sorted(built), sorted(out)); diff != "" || len(sorted(out)) < 10 {
		t.Errorf("(-base +printed):\n%s", diff)
	}
}

func (s server) checkGrace(t *testing.T) {
	s.apply(t, `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"Rollout","metadata":{"name":"grace"},"spec":{
		"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"demo"},"strategy":{"canary":{
		"steps":[{"replicas":1}],"trafficRoutings":[
		{"service":"a","gracePeriodSeconds":0,"ingress":{"name":"a"}},{"service":"b","ingress":{"name":"b"}}]}}}}`)
	got := s.kubectl(t, "get", "rollout", "grace", "-o",
		"jsonpath={.spec.strategy.canary.trafficRoutings[*].gracePeriodSeconds}")
	if want := "0 3"; got != want {
		t.Errorf("got grace periods %q, want %q", got, want)
	}
}

// checkSecond applies the policy about second Rollouts, which the other cases would be refused by.
func (s server) checkSecond(t *testing.T) {
	s.kubectl(t, "apply", "-f", filepath.Join(Root(t), "deploy", "policies", "validate-workload.yaml"))
	s.checkTypesOf(t, "sluice-validate-workload")
	s.kubectl(t, "create", "namespace", "second")
	create := func(name, workload string, options ...string) error {
		manifest := fmt.Sprintf(`{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"Rollout","metadata":{"name":%q},"spec":{"workloadRef":%s,"strategy":{"canary":{"steps":[{"replicas":1}]}}}}`, name, workload)
		if legacy, is := strings.CutPrefix(workload, "legacy "); is {
			manifest = fmt.Sprintf(`{"apiVersion":"rollouts.kruise.io/v1alpha1","kind":"Rollout","metadata":{"name":%q},"spec":{"objectRef":{"workloadRef":%s},"strategy":{"canary":{"steps":[{"replicas":1}]}}}}`, name, legacy)
		}
		_, err := s.KubectlStdin(t.Context(), manifest, append([]string{"create", "-f", "-"}, options...)...)
		return err
	}
	const app = `{"apiVersion":"apps/v1","kind":"Deployment","name":"single"}`
	if err := create("first", app, "-n", "second"); err != nil {
		t.Fatal(err)
	}
	conflict := "This rollout conflict with Rollout(first), one workload only have less than one Rollout; change that one: kubectl edit rollout first -n second"
	refused := func(workload string) error { return create("other", workload, "-n", "second", "--dry-run=server") }
	// No status shows when the API server has begun to use the policy, and knows the first Rollout.
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 10*time.Minute, true, func(context.Context) (bool, error) {
		err := refused(app)
		return err != nil && strings.Contains(err.Error(), conflict), nil
	}); err != nil {
		t.Fatalf("a second Rollout is not refused: %v", refused(app))
	}
	for name, workload := range map[string]string{"in the older version": "legacy " + app, "of another version of the kind": `{"apiVersion":"apps/v1beta2","kind":"Deployment","name":"single"}`} {
		if err := refused(workload); err == nil || !strings.Contains(err.Error(), conflict) {
			t.Errorf("%s a second Rollout gets: %v", name, err)
		}
	}
	for name, workload := range map[string]string{
		"another workload": `{"apiVersion":"apps/v1","kind":"Deployment","name":"double"}`, "another kind": `{"apiVersion":"apps/v1","kind":"StatefulSet","name":"single"}`,
		"another group": `{"apiVersion":"apps.kruise.io/v1beta1","kind":"Deployment","name":"single"}`,
	} {
		if err := refused(workload); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := create("first", app, "-n", "default", "--dry-run=server"); err != nil {
		t.Errorf("another namespace: %v", err)
	}
	s.kubectl(t, "label", "rollout", "first", "-n", "second", "team=shop")
}

// oldRollout is a Rollout that the policies would refuse. The test creates it before the policies.
const oldRollout = `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"Rollout",
	"metadata":{"name":"old","finalizers":["rollouts.kruise.io/rollout"]},"spec":{
	"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"demo"},"strategy":{}}}`

// checkOld checks a Rollout from before the policies. Users can label and delete it, and executors can write its status
// and remove its finalizer. An executor must be able to report the mistake to its user.
func (s server) checkOld(t *testing.T) {
	s.kubectl(t, "label", "rollout", "old", "team=shop")
	s.kubectl(t, "patch", "rollout", "old", "--as", api.DefaultInstallation().ExecutorUser(), "--as-group", "system:masters",
		"--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Initial","message":"x"}}`)
	s.kubectl(t, "delete", "rollout", "old", "--wait=false")
	s.kubectl(t, "patch", "rollout", "old", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	s.kubectl(t, "wait", "--for=delete", "rollout/old", "--timeout=600s")
}

// checkColumns approves as kubectl-kruise does, and reads the result in both versions.
func (s server) checkColumns(t *testing.T) {
	for _, c := range Cases(t) {
		if c.Name == "an approval of a paused step is accepted" {
			s.create(t, decode(t, c.Old, "columns"))
		}
	}
	s.kubectl(t, "patch", "rollout", "columns", "--as", "kim", "--as-group", "system:masters",
		"--subresource=status", "--type=merge", "-p", `{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`)
	for version, want := range map[string]string{
		api.V1alpha1: "columns Progressing 1 StepReady",
		api.V1beta1:  "columns Progressing 1 StepPaused",
	} {
		out := s.kubectl(t, "get", "rollouts."+version+"."+api.Group, "columns", "--no-headers")
		if got := strings.Join(strings.Fields(out)[:4], " "); got != want {
			t.Errorf("%s: got %q, want %q", version, got, want)
		}
	}
}

// checkLargest checks that the largest Rollout that the schema allows stays within the policies' budget for
// expressions.
func (s server) checkLargest(t *testing.T) {
	match := `{"path":{"type":"Exact","value":"/` + strings.Repeat("p", 900) + `"},"headers":[{"name":"a","value":"b"}]}`
	step := `{"replicas":"50%","traffic":"99.999%","mirror":{"traffic":"10%"},"matches":[` + times(16, match) + `]}`
	var routings []string
	for i := range 8 { // no two entries may name the same object
		ref := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"K","name":"%s%d"}`, strings.Repeat("n", 240), i)
		routings = append(routings, fmt.Sprintf(`{"service":"a%d","customNetworkRefs":[%s],"networkRefs":[%s]}`, i, times(16, ref), times(16, ref)))
	}
	object := `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"Rollout","metadata":{"name":"x"},"spec":{
		"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"demo"},"strategy":{"canary":{
		"enableExtraWorkloadForCanary":true,"steps":[` + times(50, step) + `],"trafficRoutings":[` + strings.Join(routings, ",") + `]}}}}`
	c := Case{Expect: Accept, Object: []byte(object)}
	said, err := s.judge(t, c, "largest")
	s.check(t, c, said, err)
}

func times(n int, element string) string {
	return strings.Join(slices.Repeat([]string{element}, n), ",")
}
