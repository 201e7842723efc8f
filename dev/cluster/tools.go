//go:build tools

package main

// Keeps istio.io/api in go.mod: the build copies the CRDs of Istio from that module.
import _ "istio.io/api/networking/v1"
