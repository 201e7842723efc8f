package main

import "runtime/debug"

// version returns the version of Prometheus' module in this binary.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, module := range info.Deps {
		if module.Path == "github.com/prometheus/prometheus" {
			return module.Version
		}
	}
	return ""
}
