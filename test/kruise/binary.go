package kruise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// binaryVariable names the binary to use instead of the one in bin.
const binaryVariable = "SLUICE_KRUISE_BIN"

// Binary returns the path of sluice-kruise: the environment variable SLUICE_KRUISE_BIN, or bin/sluice-kruise in the
// working directory or in the nearest one above that has it.
func Binary() (string, error) {
	if named := os.Getenv(binaryVariable); named != "" {
		return filepath.Abs(named)
	}
	return find(filepath.Join("bin", "sluice-kruise"))
}

// CRDs returns the directory of the CustomResourceDefinitions that the controllers need, for controlplane.Options.CRDs.
func CRDs() (string, error) { return find(filepath.Join("bin", "crds", "kruise")) }

// find returns the path in the working directory or the nearest directory above that has it.
func find(path string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", path, err)
	}
	for {
		candidate := filepath.Join(dir, path)
		if _, err := os.Stat(candidate); err == nil {
			return candidate, nil
		} else if !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("find %s: %w", path, err)
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("there is no %s in this directory or above it; run `dev/kruise/build`", path)
		}
		dir = filepath.Dir(dir)
	}
}
