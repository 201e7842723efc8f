// Package fleet plays releases over several clusters: a hub and members on control planes of their own, with RBAC and audit logs in all of them, the real NATS
// of the hub, and proxies in between.
package fleet

import (
	"flag"
	"os"
	"testing"
)

// parallel is how many stories run at the same time. They wait most of the time. The flag -parallel is stronger.
const parallel = "8"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	code := m.Run()
	stopShared()
	os.Exit(code)
}
