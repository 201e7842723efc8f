// Package workload knows the kinds of workloads: it turns an object into the facts that a release needs, and an intent into the patch that carries
// it out. Deployments of apps/v1 are typed. Each other kind is an [Object]; other projects define some of these kinds.
//
// The package is pure: it has no client, and does not decide when to act. Patches are JSON merge patches that carry the UID and the resourceVersion
// of the observed object, so the API server refuses a patch for an older version.
//
// Invariant: Hold followed by Resume leaves every field of the workload as its owner last set it.
package workload
