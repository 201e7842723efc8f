//go:build linux

// Package live carries out whole releases by a watcher, an executor and real gateways, while real requests go to real backends: none of
// them may fail. It is no test of what a gateway makes of an object that nobody sends requests through; those are elsewhere. Its one
// invariant is that nothing between a client and the pods is Sluice's or the test's own.
//
// All of it runs in a network of its own, where a pod's address can be listened on, by a user namespace that needs no privilege.
package live

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"sluice.dev/sluice/test/world"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(inside) == "" {
		os.Exit(enter())
	}
	if err := arrange(); err != nil {
		fmt.Fprintf(os.Stderr, "live: arrange the network: %v\n", err)
		os.Exit(1)
	}
	tellMissing()
	world.ShareCRDs("gateway-api-experimental", "traefik")
	code := m.Run()
	world.StopShared()
	os.Exit(code)
}

// tellMissing says how many cases are skipped and why: go test shows skips to those only who ask for them.
func tellMissing() {
	for _, p := range planes {
		if name := p.missing(); name != "" {
			fmt.Printf("live: both cases of %s are skipped, for bin/%s is not built; run make verify ARGS=--whole=live\n", p.name, name)
		}
	}
}
