// Package workload knows the kinds of workloads: from an object to what a release needs to know of it, and from an intent to the
// patch that carries it out. Deployments of apps/v1 are typed; the other kinds, some of which are others' to define, are an [Object].
//
// It is pure: it knows no client and decides nothing about when. Patches are JSON merge patches that carry the UID and the
// resourceVersion of the object that was seen, so that one made for an older version of it is refused.
//
// Invariant: Hold followed by Resume leaves every field of the workload as its owner last set it.
package workload
