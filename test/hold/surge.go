package hold

import (
	"maps"

	"sluice.dev/sluice/pkg/api"
)

// widenedCase is a user's write to a workload to which a release has added surge replicas.
type widenedCase struct {
	name           string
	old, new, want state
}

// widened returns the cases of a kind that can have surge replicas, given a rolling workload in partition style. Its
// owner wants 2 replicas, and allows a quarter of them to be unavailable during scaling.
func (f kindFile) widened(rolling state) []widenedCase {
	if f.Wide == nil {
		return nil
	}
	const two, three = "web:2", "web:3"
	remembering := func(s state, more map[string]string) state {
		s.originals = maps.Clone(s.originals)
		maps.Copy(s.originals, more)
		return s
	}
	as := func(s state, image string, strategy, spec map[string]any) state {
		s.image, s.strategy, s.spec = image, strategy, spec
		return s
	}
	wide := remembering(as(rolling, two, f.Rolling, f.Wide), map[string]string{"replicas": "2", "minReadySeconds": "0", "scaleMaxUnavailable": "25%"})
	wide.annotations = map[string]string{api.AnnotationSurgeReplicas: "3"}
	owners := func(image string, replicas int, more map[string]any) state {
		spec := map[string]any{"replicas": replicas, "scaleStrategy": map[string]any{"maxUnavailable": "25%"}}
		maps.Copy(spec, more)
		return state{image: image, strategy: f.Own, spec: spec}
	}
	other := map[string]any{"minReadySeconds": 30, "scaleStrategy": map[string]any{"maxUnavailable": 1}}
	remembered := remembering(wide, map[string]string{"replicas": "5", "minReadySeconds": "30", "scaleMaxUnavailable": "1"})
	byHand := remembering(rolling, map[string]string{"replicas": "9"})
	byHand.annotations = map[string]string{api.AnnotationSurgeReplicas: "3"}
	lost := wide
	lost.annotations = nil
	five := map[string]any{"replicas": 5}
	scaled := rolling
	scaled.spec = five
	return []widenedCase{
		{"widened, a replace by the same manifest changes nothing", wide, owners(two, 2, nil), wide},
		{"widened, other replicas are remembered and not in force", wide, owners(two, 5, other), remembered},
		{"widened, what is remembered stays so when the same manifest comes again", remembered, owners(two, 5, other), remembered},
		{"widened, a manifest that leaves the replicas to others asks for none", wide, owners(two, 2, map[string]any{"replicas": nil}), wide},
		{"widened, a new template is held again", wide, owners(three, 2, nil), as(wide, three, f.Held, f.Wide)},
		{"widened, a new template is held whatever replicas it comes with", wide, owners(three, 0, nil),
			as(remembering(wide, map[string]string{"replicas": "0"}), three, f.Held, f.Wide)},
		{"widened, the mark cannot be taken off", wide, lost, wide},
		{"not widened, it cannot be widened by hand", rolling, byHand, rolling},
		{"not widened, the replicas are the user's", rolling, as(rolling, two, f.Rolling, five), scaled},
	}
}
