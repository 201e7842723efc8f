package receiver

import "testing"

// An API server that does not know audiences vouches for a token all the same, and says for whom it does: that counts.
func TestATokenMustBeMeantForOneOfOurAudiences(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ours, told []string
		want       bool
	}{
		"for us":                          {[]string{"sluice", "ci"}, []string{"ci"}, true},
		"for another":                     {[]string{"sluice"}, []string{"vault"}, false},
		"for nobody, as the server tells": {[]string{"sluice"}, nil, false},
		"we take those of the server":     {nil, []string{"https://kubernetes.default.svc"}, true},
	} {
		if got := (&KubeAccess{audiences: c.ours}).hasAudience(c.told); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
