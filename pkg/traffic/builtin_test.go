package traffic

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/script/cases"
)

// For each kind, a repeated step changes nothing, and steps go forward and back. An owner's edit between steps stays. At the end the object is as its
// owner wants it, with empty values and unknown fields.
func TestEachKindIsShapedAndGivenBack(t *testing.T) {
	t.Parallel()
	all, err := cases.LoadAll(luaconfiguration.FS)
	if err != nil {
		t.Fatal(err)
	}
	library := script.NewLibrary(luaconfiguration.FS, "")
	for _, c := range all {
		if c.Refused != "" {
			continue
		}
		t.Run(c.Path, func(t *testing.T) {
			t.Parallel()
			parts := strings.Split(c.Script, "/")
			source, err := library.FindScript(parts[0], parts[1], script.ConfigMap{})
			if err != nil {
				t.Fatal(err)
			}
			original := &unstructured.Unstructured{Object: toUnstructured(c.Original).(map[string]any)}
			original.SetUID("object")
			g := &gateway{t: t, ref: rollout.Ref{APIVersion: original.GetAPIVersion(), Kind: original.GetKind(), Name: original.GetName()},
				live: defaulted(original), run: LuaScript(t.Context(), source)}
			rel, steps := asked(t, c)
			if original.GetKind() == "DestinationRule" && rel.CanaryService != rel.Service {
				t.Skip("a release leaves it as it is")
			}
			want := ContentOf(g.live)
			forward := slices.Clone(steps)
			slices.Reverse(steps)
			for _, s := range slices.Concat(forward, steps) {
				g.step(rel, s)
				g.edit(func(u *unstructured.Unstructured) {
					labels := u.GetLabels()
					if labels == nil {
						labels = map[string]string{}
					}
					labels["edited"] = "meanwhile"
					u.SetLabels(labels)
				})
				g.step(rel, s)
			}
			g.restore(rel)
			if want.Labels == nil {
				want.Labels = map[string]string{}
			}
			want.Labels["edited"] = "meanwhile"
			if diff := cmp.Diff(want, ContentOf(g.live)); diff != "" {
				t.Errorf("(-want +given back):\n%s", diff)
			}
		})
	}
}

// asked returns the release of a case, and the strategies of its steps.
func asked(t *testing.T, c cases.Case) (rel Release, steps []Strategy) {
	t.Helper()
	first := c.Steps[0]
	rel = Release{UID: "rollout", Namespace: first.Namespace, Name: "release", Service: first.StableService, CanaryService: first.CanaryService, Epoch: 1, Terms: Terms{Rules: first.Routes}}
	if first.Stage == script.StageRouting {
		rel.Kind = "TrafficRouting"
	}
	if labels, ok := first.PatchPodMetadata["labels"].(map[string]any); ok {
		rel.PatchLabels = map[string]string{}
		for k, v := range labels {
			rel.PatchLabels[k], _ = v.(string)
		}
	}
	for _, in := range c.Steps {
		var s Strategy
		if in.CanaryWeight >= 0 {
			s = weight(rollout.Percent(in.CanaryPercent()))
		}
		if in.Mirror != 0 {
			s.Mirror = new(rollout.Percent(in.Mirror))
		}
		text, err := json.Marshal(map[string]any{"matches": in.Matches, "requestHeaderModifier": in.RequestHeaderModifier})
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, s)
	}
	return rel, steps
}
