// Package luaconfiguration holds the built-in scripts that shape traffic
// objects, and their test cases, so that every binary carries them. It is no
// place for code: scripts are found and run by package script. Its one
// invariant: what is embedded is exactly what lies in this directory as
// <group>/<Kind>/trafficRouting.lua, capabilities.yaml and testdata/*.yaml, and
// for Ingress classes trafficrouting_ingress/<class>.lua and the like.
package luaconfiguration

import "embed"

// FS is the directory lua_configuration.
//
//go:embed trafficrouting_ingress/*.lua trafficrouting_ingress/*.yaml */*/trafficRouting.lua */*/capabilities.yaml */*/testdata/*.yaml
var FS embed.FS
