// Package luaconfiguration embeds the built-in scripts that shape traffic
// objects, and their test cases, into every binary. It contains no other code:
// package script finds and runs the scripts.
//
// Its one invariant: it embeds exactly the files of this directory at
// <group>/<Kind>/trafficRouting.lua, capabilities.yaml and testdata/*.yaml. For
// Ingress classes these are trafficrouting_ingress/<class>.lua and the like.
package luaconfiguration

import "embed"

// FS is the directory lua_configuration.
//
//go:embed trafficrouting_ingress/*.lua trafficrouting_ingress/*.yaml */*/trafficRouting.lua */*/capabilities.yaml */*/testdata/*.yaml
var FS embed.FS
