//go:build tools

package main

// Keeps istio.io/api in go.mod: the build takes the CRDs of Istio out of that module.
import _ "istio.io/api/networking/v1"
