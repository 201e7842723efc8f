// Package gateway plays releases through gateway kinds with the definitions of their publishers.
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
