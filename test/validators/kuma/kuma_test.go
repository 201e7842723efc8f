// Package kuma lets the validation of Kuma check the script's output for a TrafficRoute, because the definition of the
// kind accepts anything. It is a separate module, because it needs the dependencies of Kuma.
package kuma

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kumahq/kuma/pkg/core/resources/apis/mesh"
	"github.com/kumahq/kuma/pkg/util/proto"
	"sigs.k8s.io/yaml"
)

func judge(spec any) error {
	text, err := yaml.Marshal(spec)
	if err != nil {
		return err
	}
	r := mesh.NewTrafficRouteResource()
	if err := proto.FromYAML(text, r.Spec); err != nil {
		return err
	}
	return r.Validate()
}

func TestKumaRefusesWhatIsInvalid(t *testing.T) {
	t.Parallel()
	if judge(map[string]any{"conf": map[string]any{}}) == nil {
		t.Error("it takes a route that leads nowhere")
	}
}

// The object of each case is valid for Kuma, before a release and at each of its steps.
func TestKumaTakesWhatTheScriptMakes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../lua_configuration/kuma.io/TrafficRoute/testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			type object struct{ Spec map[string]any }
			var c struct {
				Original object
				Expected []object
			}
			if err := yaml.Unmarshal(text, &c); err != nil {
				t.Fatal(err)
			}
			for i, o := range append([]object{c.Original}, c.Expected...) {
				if err := judge(o.Spec); err != nil {
					t.Errorf("object %d: %v", i, err)
				}
			}
		})
	}
}
