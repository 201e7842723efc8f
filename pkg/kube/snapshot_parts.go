package kube

// part is a part of a snapshot. One request reads it, or one pass over all gateway objects.
type part int

const (
	partRollout part = iota
	partWorkload
	partReplicaSets
	partCanary
	partStableService
	partCanaryService
	partEndpoints
	partStableEndpoints
	partRoutes
	partPolicies
	partCount // the number of parts
)

// partSet is a set of parts.
type partSet [partCount]bool

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

func (set partSet) union(other partSet) partSet {
	for p, on := range other {
		set[p] = set[p] || on
	}
	return set
}

func (set partSet) except(other partSet) partSet {
	for p, on := range other {
		set[p] = set[p] && !on
	}
	return set
}

func (set partSet) isEmpty() bool { return set == partSet{} }
