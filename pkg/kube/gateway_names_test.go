package kube_test

import (
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/rollout"
)

func TestANameThatIsTooLongForACopyIsToldBeforeAnythingIsMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cases := map[string]struct {
		service, deployment string
		says                []string
	}{
		"a Service of 57 characters":                         {strings.Repeat("s", 57), "web", []string{"64 characters", "at most 56 characters", "createCanaryService: false"}},
		"a Service of 56 characters":                         {strings.Repeat("s", 56), "web", nil},
		"a Deployment whose canary could have no ReplicaSet": {"web", strings.Repeat("d", 236), []string{"too long by 1 characters", "shorter name"}},
		"a Deployment of just the right length":              {"web", strings.Repeat("d", 235), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w.apply(strings.Replace(deployment, "name: web,", "name: "+c.deployment+",", 1), strings.Replace(service, "name: web", "name: "+c.service, 1), virtualService)
			w.apply(strings.NewReplacer("service: web", "service: "+c.service, "kind: Deployment, name: web", "kind: Deployment, name: "+c.deployment).Replace(canaryRollout))
			var said string
			for _, p := range w.observe("web").Seen.Problems {
				if p.Reason == rollout.ReasonInvalidSpec {
					said += p.Message
				}
			}
			if len(c.says) == 0 && said != "" {
				t.Errorf("it is refused: %s", said)
			}
			for _, part := range c.says {
				if !strings.Contains(said, part) {
					t.Errorf("the message %q does not say %q", said, part)
				}
			}
		})
	}
}
