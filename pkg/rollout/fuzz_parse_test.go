package rollout

import (
	"encoding/json"
	"testing"

	"sluice.dev/sluice/pkg/api"
)

// Parse accepts or refuses every Rollout that the schema accepts, without a panic.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"spec":{"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"a"},"strategy":{"canary":{"steps":[{"replicas":"50%","traffic":"0.5%"}]}}}}`,
		`{"spec":{"objectRef":{},"strategy":{"blueGreen":{"steps":[{"weight":5}]}}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var r api.Rollout
		if json.Unmarshal(body, &r) != nil {
			t.Skip()
		}
		spec, err := Parse(&r)
		if err == nil && len(spec.Steps) == 0 {
			t.Error("a spec without steps is taken for valid")
		}
	})
}
