package validate

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// checkTemplateRules looks for a refusal by each rule of the schema of templates.
func checkTemplateRules(t *testing.T, refusals []string) {
	spec := schema(t, "sluice.dev_analysistemplates").Properties["spec"]
	rules := rulesOf("spec", &spec)
	if len(rules) < 50 {
		t.Errorf("the walk found %d rules only", len(rules))
	}
	checkRules(t, rules, refusals)
}

// checkRules looks, for each rule of a schema, for a refusal that names the field and the rule.
func checkRules(t *testing.T, rules []*regexp.Regexp, refusals []string) {
	t.Helper()
	indexed := regexp.MustCompile(`\[[0-9]+\]`)
	for i, r := range refusals {
		refusals[i] = indexed.ReplaceAllString(r, "[]")
	}
	for _, rule := range rules {
		if !slices.ContainsFunc(refusals, rule.MatchString) {
			t.Errorf("no case is refused with %s", rule)
		}
	}
}

func schema(t *testing.T, name string) *apiextensions.JSONSchemaProps {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Root(t), "deploy/crds", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensions.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &crd); err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// rulesOf walks a schema and returns patterns of the API server's messages about broken rules. It leaves out bounds of
// lengths, which keep objects small and rules cheap.
func rulesOf(path string, s *apiextensions.JSONSchemaProps) []*regexp.Regexp {
	var rules []*regexp.Regexp
	add := func(when bool, format string, args ...any) {
		if when {
			rules = append(rules, regexp.MustCompile(fmt.Sprintf(format, args...)))
		}
	}
	at := regexp.QuoteMeta(path)
	add(s.Minimum != nil, "%s in body should be greater than", at)
	add(s.Maximum != nil, "%s in body should be less than", at)
	add(s.MinLength != nil, "%s in body should be at least", at)
	add(s.MinItems != nil, "%s in body should have at least", at)
	add(s.Pattern != "", "%s in body should match", at)
	add(s.Enum != nil, "%s: Unsupported value", at)
	add(s.XListType != nil && *s.XListType == "map", `%s\[\]: Duplicate value`, at)
	for _, rule := range s.XValidations {
		add(true, "%s: .*%s", at, regexp.QuoteMeta(rule.Message))
	}
	for _, name := range s.Required {
		add(path != "spec", "%s: Required value", regexp.QuoteMeta(path+"."+name))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		rules = append(rules, rulesOf(path+"."+name, &property)...)
	}
	if s.Items != nil {
		rules = append(rules, rulesOf(path+"[]", s.Items.Schema)...)
	}
	return rules
}
