package kube

// part is a part of a snapshot: what is read by one request, or once for all gateway objects.
type part int

const (
	partRollout part = iota
	partWorkload
	partSets
	partCanary
	partStableService
	partCanaryService
	partEndpoints
	partStableEndpoints
	partRoutes
	partPolicies
	parts // their number
)

// partSet is a set of parts.
type partSet [parts]bool

func partsOf(list ...part) (set partSet) {
	for _, p := range list {
		set[p] = true
	}
	return set
}

func allParts() (set partSet) {
	for p := range set {
		set[p] = true
	}
	return set
}

func (set partSet) and(other partSet) partSet {
	for p, on := range other {
		set[p] = set[p] || on
	}
	return set
}

func (set partSet) without(other partSet) partSet {
	for p, on := range other {
		set[p] = set[p] && !on
	}
	return set
}

func (set partSet) empty() bool { return set == partSet{} }
