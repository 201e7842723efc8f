// Package gateway plays releases through gateway kinds whose definitions are their publishers' own.
package gateway

import (
	"flag"
	"os"
	"testing"

	"sluice.dev/sluice/test/world"
)

func TestMain(m *testing.M) {
	flag.Parse()
	world.ShareCRDs("gateway-api", "istio-security", "inference", "traefik", "apisix", "kuma")
	code := m.Run()
	world.StopShared()
	os.Exit(code)
}
