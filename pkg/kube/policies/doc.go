// Package policies checks whether the admission policies that hold new versions of workloads are installed.
//
// It installs nothing and does not say what a policy holds: deploy/policies and package hold do.
//
// Invariant: a problem with the policies is a warning. It never stops a release.
package policies
