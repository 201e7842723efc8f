package receiver

import "testing"

// An API server without support for audiences accepts a token of any audience. The audiences in its answer decide.
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
