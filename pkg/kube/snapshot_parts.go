package kube

// part is a part of a snapshot: the result of one request, or of the reads of all gateway objects.
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
	partCount // their number
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
