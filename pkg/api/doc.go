// Package api holds the Go types of the custom resources that Sluice serves, and every
// name that other programs see: labels, annotations, finalizers, phases, states and reasons.
//
// One set of types stands for both served versions of Rollout (v1beta1, stored, and
// v1alpha1): the shape of the object decides what it means, not its version. The package
// does not validate, default or decide anything; the CRDs in deploy/crds are generated
// from it. deploy/policies/validate.yaml has the rules that compare fields of a Rollout, and
// the schema of templates has the rules for templates; package rollout parses a Rollout, and package analysis a
// template's metrics, into valid models.
//
// Invariant: the package imports nothing of this module, and a JSON field once released
// keeps its name and its meaning.
//
// +kubebuilder:object:generate=true
// +groupName=rollouts.kruise.io
// +versionName=v1beta1
package api

//go:generate go tool controller-gen object paths=.
//go:generate go run ./gen ../../deploy/crds
