// Package luaconfiguration holds the built-in scripts that shape traffic
// objects, and their test cases, so that every binary carries them. It is no
// place for code: scripts are found and run by package script. Its one
// invariant: what is embedded is exactly what lies in this directory as
// <group>/<Kind>/trafficRouting.lua and testdata/*.yaml.
package luaconfiguration

import "embed"

// FS is the directory lua_configuration.
//
//go:embed */*/trafficRouting.lua */*/testdata/*.yaml
var FS embed.FS
