package receiver

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNoKubernetesUserPassesForANATSUser(t *testing.T) {
	t.Parallel()
	for username, want := range map[string]string{
		"ci-shop":                       "kubernetes:ci-shop",
		"Alice7":                        "kubernetes:Alice7",
		"kubernetes:ci-shop":            "kubernetes:kubernetes:ci-shop",
		"kubernetes:":                   "kubernetes:kubernetes:",
		"alice@example.com":             "alice@example.com",
		"https://idp.example.com#alice": "https://idp.example.com#alice",
		"system:serviceaccount:shop:ci": "system:serviceaccount:shop:ci",
		"system:admin":                  "system:admin",
		"first_last":                    "first_last",
	} {
		if diff := cmp.Diff(want, principalOf(username)); diff != "" {
			t.Errorf("%s decides as (-want +got):\n%s", username, diff)
		}
	}
}
