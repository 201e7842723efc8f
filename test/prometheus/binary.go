package prometheus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// binaryVariable names the binary to use instead of the one in bin.
const binaryVariable = "SLUICE_PROMETHEUS_BIN"

// Binary returns the path of sluice-prometheus: the environment variable SLUICE_PROMETHEUS_BIN, or
// bin/sluice-prometheus in the working directory or in the nearest one above that has it.
func Binary() (string, error) {
	if named := os.Getenv(binaryVariable); named != "" {
		return filepath.Abs(named)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find sluice-prometheus: %w", err)
	}
	for {
		candidate := filepath.Join(dir, "bin", "sluice-prometheus")
		if _, err := os.Stat(candidate); err == nil {
			return candidate, nil
		} else if !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("find sluice-prometheus: %w", err)
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("there is no bin/sluice-prometheus in this directory or above it; run `dev/prometheus/build`")
		}
		dir = filepath.Dir(dir)
	}
}
