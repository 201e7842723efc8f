//go:build linux

// Package live carries out whole releases with a watcher, an executor and real gateways, while real requests go to real
// backends. None of the requests may fail. Other packages test the effect of objects on gateways without requests. The
// one invariant of the package: no component of Sluice or of the test is between a client and the pods.
//
// All of it runs in its own network, in which a test can listen on a pod's address. A user namespace makes that
// possible without privileges.
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

// tellMissing prints the number of skipped cases and the reason, because go test does not show skips by default.
func tellMissing() {
	for _, p := range planes {
		if name := p.missing(); name != "" {
			fmt.Printf("live: both cases of %s are skipped, for bin/%s is not built; run make verify ARGS=--whole=live\n", p.name, name)
		}
	}
}
