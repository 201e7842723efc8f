package main

import (
	"os"
	"testing"
)

// TestMain lets the test binary run as the NATS server that the bench starts from its own program.
func TestMain(m *testing.M) {
	if len(os.Args) >= 3 && os.Args[1] == natsCommand {
		os.Exit(runNATS(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}
