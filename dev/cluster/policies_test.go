package main

import (
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

// TestWhatOlderServersAreGivenCompilesThere compiles every expression of the manifests for servers before 1.36 as Kubernetes 1.30 does, the oldest supported
// version. A server accepts new expressions only in the language of the version before its own. `make verify ARGS=--whole=older` tests with such a server.
func TestWhatOlderServersAreGivenCompilesThere(t *testing.T) {
	old := environment.MustBaseEnvSet(version.MajorMinor(1, 29))
	alone := plugincel.NewCompiler(old)
	may := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	seen := 0
	check := func(on string, result plugincel.CompilationResult) {
		t.Helper()
		seen++
		if result.Error != nil {
			t.Errorf("%s: %v", on, result.Error)
		}
	}
	conditions := func(on string, list []admissionv1.MatchCondition) {
		for _, c := range list {
			check(on+" "+c.Name, alone.CompileCELExpression(&matchconditions.MatchCondition{Expression: c.Expression}, may, environment.NewExpressions))
		}
	}
	for _, path := range []string{"../../deploy/policies/validate.yaml", "../../deploy/policies/validate-fleet.yaml", "../../deploy/webhook/webhook.yaml"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			var policy admissionv1.ValidatingAdmissionPolicy
			var hook admissionv1.MutatingWebhookConfiguration
			for _, object := range []any{&policy, &hook} {
				if err := yaml.Unmarshal([]byte(document), object); err != nil {
					t.Fatal(err)
				}
			}
			for _, w := range hook.Webhooks {
				conditions(hook.Name, w.MatchConditions)
			}
			compiler, err := plugincel.NewCompositedCompiler(old)
			if err != nil {
				t.Fatal(err)
			}
			conditions(policy.Name, policy.Spec.MatchConditions)
			for _, v := range policy.Spec.Variables {
				check(policy.Name+" "+v.Name, compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, may, environment.NewExpressions))
			}
			for _, v := range policy.Spec.Validations {
				check(policy.Name, compiler.CompileCELExpression(&validating.ValidationCondition{Expression: v.Expression}, may, environment.NewExpressions))
				if v.MessageExpression != "" {
					check(policy.Name, compiler.CompileCELExpression(&validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}, may, environment.NewExpressions))
				}
			}
		}
	}
	if seen < 80 {
		t.Errorf("only %d expressions were found", seen)
	}
}
