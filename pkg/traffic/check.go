package traffic

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// checkRendering checks the output of a script for one release, and returns the reason why the executor must not write it. It is conservative: a kind
// whose backends it does not recognise passes. Created objects may lead to no other backends either. A created object that forwards requests counts as its
// forward target. The weights of a split with the canary must add up to weightSum, unless weightSum is 0.
func checkRendering(before, after any, create []map[string]any, weightSum float64, e entry) error {
	same := len(create) == 0 && equalJSON(before, after)
	for _, object := range create {
		if err := checkMirror(object, e); err != nil {
			return err
		}
	}
	after = resolveForwarding(after, create)
	was, is := backendsIn(before), backendsIn(after)
	if err := checkBackendsKept(was, is, e); err != nil {
		return err
	}
	if err := checkNoForeignBackends(was, is, e); err != nil {
		return err
	}
	if err := checkStableReachable(before, after, e); err != nil {
		return err
	}
	for _, s := range splitsOf(after) {
		if err := checkShares(s, was, weightSum, e); err != nil {
			return err
		}
	}
	for _, object := range create {
		if err := checkNoForeignBackends(was, backendsIn(object), e); err != nil {
			return err
		}
	}
	if e.routesToCanary() && len(was) > 0 && same {
		return fmt.Errorf("no rule that the script changes leads to Service %s, so the step would send nothing to the canary; route to %s by a rule, or correct the name of the Service in the Rollout", e.Service, e.Service)
	}
	return nil
}

// ownsBackend reports whether a backend is the given Service of the release, and not one of the same name in another namespace.
func (e entry) ownsBackend(b backend, service string) bool {
	return b.belongsTo(service) && (b.namespace == "" || e.Namespace == "" || b.namespace == e.Namespace)
}

func checkBackendsKept(was, is map[backend]bool, e entry) error {
	for _, b := range sortedBackends(was) {
		if !is[b] && !(e.ownsBackend(b, e.Service) && e.takesAllTraffic()) {
			return fmt.Errorf("the script drops the backend %s, which it was not asked to; mend the script", b)
		}
	}
	return nil
}

func checkNoForeignBackends(was, is map[backend]bool, e entry) error {
	for _, b := range sortedBackends(is) {
		if !was[b] && !e.ownsBackend(b, e.Service) && !e.ownsBackend(b, e.CanaryService) {
			return fmt.Errorf("the script adds the backend %s, which is neither the stable nor the canary Service; mend the script", b)
		}
	}
	return nil
}

// checkMirror checks an object that forwards requests and mirrors them. It must mirror from the stable Service to the canary Service, and at most the
// share that the step asks for.
func checkMirror(object map[string]any, e entry) error {
	to := forwardTarget(object)
	if to == nil {
		return nil
	}
	name := fmt.Sprintf("%v %s", object["kind"], stringAt(object, "metadata", "name"))
	if b, ok := backendOf("services", to); !ok || !e.ownsBackend(b, e.Service) {
		return fmt.Errorf("the script makes %s, which passes requests on to %s instead of the stable Service %s; mend the script", name, b, e.Service)
	}
	mirrors, _ := to["mirrors"].([]any)
	for _, m := range mirrors {
		m, _ := m.(map[string]any)
		if b, ok := backendOf("services", m); !ok || !e.ownsBackend(b, e.CanaryService) {
			return fmt.Errorf("the script makes %s, which copies requests to %s instead of the canary Service %s; mend the script", name, b, e.CanaryService)
		}
		if share := toFloat(m["percent"]); e.Mirror == nil || share == nil || *share > float64(*e.Mirror) {
			return fmt.Errorf("the script makes %s, which copies more requests than the step asks for; mend the script", name)
		}
	}
	return nil
}

func checkStableReachable(before, after any, e entry) error {
	was := backendsIn(before)
	reached := func(spec any) bool {
		for _, s := range splitsOf(spec) {
			for _, t := range s {
				if was[t.backend] && e.ownsBackend(t.backend, e.Service) && (t.weight == nil || *t.weight > 0) {
					return true
				}
			}
		}
		return false
	}
	if !e.takesAllTraffic() && reached(before) && !reached(after) {
		return fmt.Errorf("the script leaves no traffic for the stable Service %s although the step does not move all of it; mend the script", e.Service)
	}
	return nil
}

// checkShares checks a split with the canary. Its weights must add up to 100, rounding aside. Relative weights must give the canary the requested share of
// all traffic or of the traffic of its Service. The canary must get no more than that share.
func checkShares(s split, was map[backend]bool, weightSum float64, e entry) error {
	var sum, canary, stable float64
	takesPart := false
	for _, t := range s {
		if t.weight == nil {
			return nil
		}
		if *t.weight < 0 {
			return fmt.Errorf("the script gives %s the negative weight %g; mend the script", t.backend, *t.weight)
		}
		sum += *t.weight
		if !was[t.backend] && (e.ownsBackend(t.backend, e.CanaryService) || e.ownsBackend(t.backend, e.Service)) {
			takesPart = true
			canary += *t.weight
		} else if e.ownsBackend(t.backend, e.Service) {
			stable += *t.weight
		}
	}
	if takesPart && weightSum != 0 && sum != weightSum {
		return fmt.Errorf("the script's weights in %s add up to %g, and the kind takes those that add up to %g (weightSum of its capabilities); mend the script", s, sum, weightSum)
	}
	if !takesPart || len(s) < 2 || e.Weight == nil {
		return nil
	}
	asked, rounding := float64(*e.Weight), float64(len(s)-1)
	if sum == 0 {
		return fmt.Errorf("the script gives every backend of %s the weight 0; mend the script", s)
	}
	share := 100 * canary / sum
	within := 1.0
	if asked != math.Trunc(asked) {
		within, rounding = 0.01, 0
	}
	if share > asked+within && len(e.Matches) == 0 && e.Tag == nil {
		return fmt.Errorf("the script sends %.3g%% to the canary in %s while the step asks for %g%%; mend the script", share, s, asked)
	}
	ofOwn := 100 * canary / max(canary+stable, 1) // where other backends take part, and keep their share
	if math.Abs(sum-100) > rounding && math.Abs(share-asked) > within && math.Abs(ofOwn-asked) > within {
		return fmt.Errorf("the script's weights in %s add up to %g instead of 100; mend the script", s, sum)
	}
	return nil
}

func (s split) String() string {
	var parts []string
	for _, t := range s {
		part := t.backend.String()
		if t.weight != nil {
			part += fmt.Sprintf(" %g", *t.weight)
		}
		parts = append(parts, part)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func sortedBackends(set map[backend]bool) []backend {
	return slices.SortedFunc(maps.Keys(set), func(a, b backend) int { return strings.Compare(a.String(), b.String()) })
}
