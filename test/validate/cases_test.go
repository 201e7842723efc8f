package validate

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
)

func TestTheTypesCarryEveryFieldOfWhatIsAccepted(t *testing.T) {
	for _, c := range append(Cases(t), FleetCases(t)...) {
		if c.Expect == Reject {
			continue
		}
		t.Run(c.File+"/"+c.Name, func(t *testing.T) {
			want := decodeStrictly(t, c.Object)
			text, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, decodeStrictly(t, text)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// decodeStrictly decodes an object into the type of its kind.
func decodeStrictly(t *testing.T, text []byte) any {
	t.Helper()
	var head metav1.TypeMeta
	if err := json.Unmarshal(text, &head); err != nil {
		t.Fatal(err)
	}
	object, known := map[string]any{
		api.KindRollout: &api.Rollout{}, api.KindFleetMember: &api.FleetMember{}, api.KindFleetPlan: &api.FleetPlan{},
		api.KindFleetRollout: &api.FleetRollout{}, api.KindFleetTarget: &api.FleetTarget{},
	}[head.Kind]
	if !known {
		t.Fatalf("there is no type for the kind %q", head.Kind)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestEveryCaseHasAName(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range append(Cases(t), FleetCases(t)...) {
		key := c.File + "/" + c.Name
		if c.Name == "" || seen[key] {
			t.Errorf("%q is not the name of one case alone", key)
		}
		seen[key] = true
	}
}
