// Package istio has the validation of Istio judge what the scripts make of its kinds. It is a module of its own, for its dependencies are Istio's.
package istio

import (
	"os"
	"path/filepath"
	"testing"

	"istio.io/istio/pilot/pkg/config/kube/crd"
	"sigs.k8s.io/yaml"
)

func TestIstioRefusesWhatIsInvalid(t *testing.T) {
	t.Parallel()
	const nobody = `{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: web}, spec: {hosts: [web], http: [{route: [
		{destination: {host: web}, weight: 0}, {destination: {host: web-canary}, weight: 0}]}]}}`
	if _, _, err := crd.ParseInputs(nobody); err == nil {
		t.Error("it takes weights that add up to nothing")
	}
}

// What stands in a case before a release and at each of its steps is valid to Istio.
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
				Original map[string]any
				Expected []map[string]any
			}
			if err := yaml.Unmarshal(text, &c); err != nil {
				t.Fatal(err)
			}
			for i, object := range append([]map[string]any{c.Original}, c.Expected...) {
				body, err := yaml.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := crd.ParseInputs(string(body)); err != nil {
					t.Errorf("object %d: %v\n%s", i, err, body)
				}
			}
		})
	}
}
