// Package istio lets the validation of Istio check the scripts' output for its kinds. It is a separate module, because
// it needs the dependencies of Istio.
package istio

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
	"istio.io/istio/pkg/config"
	"istio.io/istio/pkg/config/validation"
	"sigs.k8s.io/yaml"
)

type object struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Spec     json.RawMessage
}

// refusal returns the error with which Istio refuses an object, nil for a valid one. It calls the validation of each
// kind itself, because Istio's table of all kinds imports 500 more packages, most of them Envoy's.
func refusal(o object) error {
	c, validate := config.Config{Meta: config.Meta{Name: o.Metadata.Name, Namespace: o.Metadata.Namespace}}, validation.ValidateVirtualService
	switch o.Kind {
	case "VirtualService":
		c.Spec = &networking.VirtualService{}
	case "DestinationRule":
		c.Spec, validate = &networking.DestinationRule{}, validation.ValidateDestinationRule
	default:
		return fmt.Errorf("no validation for kind %q", o.Kind)
	}
	if err := config.ApplyJSON(c.Spec, string(o.Spec)); err != nil {
		return err
	}
	_, err := validate(c)
	return err
}

func TestIstioRefusesWhatIsInvalid(t *testing.T) {
	t.Parallel()
	for sentence, text := range map[string]string{
		"weights that add up to nothing": `{kind: VirtualService, metadata: {name: web}, spec: {hosts: [web], http: [{route: [
			{destination: {host: web}, weight: 0}, {destination: {host: web-canary}, weight: 0}]}]}}`,
		"a subset without a name":     `{kind: DestinationRule, metadata: {name: web}, spec: {host: web, subsets: [{labels: {version: v1}}]}}`,
		"a field that it has not got": `{kind: VirtualService, metadata: {name: web}, spec: {hosts: [web], rules: []}}`,
		"a kind without a validation": `{kind: Rule, metadata: {name: web}, spec: {}}`,
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			var o object
			if err := yaml.Unmarshal([]byte(text), &o); err != nil {
				t.Fatal(err)
			}
			if refusal(o) == nil {
				t.Error("it is taken for valid")
			}
		})
	}
}

// The object of each case is valid for Istio, before a release and at each of its steps.
func TestIstioTakesWhatTheScriptsMake(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../lua_configuration/networking.istio.io/*/testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(filepath.Dir(file)))+"/"+filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var c struct {
				Original object
				Expected []object
			}
			if err := yaml.Unmarshal(text, &c); err != nil {
				t.Fatal(err)
			}
			for i, o := range append([]object{c.Original}, c.Expected...) {
				if err := refusal(o); err != nil {
					t.Errorf("object %d: %v\n%s", i, err, o.Spec)
				}
			}
		})
	}
}
