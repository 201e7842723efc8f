package validate

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
)

func TestTheTypesCarryEveryFieldOfWhatIsAccepted(t *testing.T) {
	for _, c := range Cases(t) {
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

func decodeStrictly(t *testing.T, text []byte) *api.Rollout {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	rollout := &api.Rollout{}
	if err := decoder.Decode(rollout); err != nil {
		t.Fatal(err)
	}
	return rollout
}

func TestEveryCaseHasAName(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases(t) {
		key := c.File + "/" + c.Name
		if c.Name == "" || seen[key] {
			t.Errorf("%q is not the name of one case alone", key)
		}
		seen[key] = true
	}
}
