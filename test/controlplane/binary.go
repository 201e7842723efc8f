package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// binaryVariable names the binary to use instead of the one in bin.
const binaryVariable = "SLUICE_CLUSTER_BIN"

// Binary returns the path of sluice-cluster: the environment variable SLUICE_CLUSTER_BIN, or bin/sluice-cluster in the
// working directory or in one above it.
func Binary() (string, error) {
	path, err := find(filepath.Join("bin", "sluice-cluster"))
	if named := os.Getenv(binaryVariable); named != "" {
		path, err = filepath.Abs(named)
	}
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return "", fmt.Errorf("there is no program at %s; correct %s, or unset it and run `make control-plane`", path, binaryVariable)
	}
	return path, nil
}

// IstioCRDs returns the path of the CustomResourceDefinitions of Istio's networking group, for Options.CRDs.
func IstioCRDs() (string, error) { return find(filepath.Join("bin", "crds", "istio.yaml")) }

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
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("there is no %s in this directory or above it; run `make control-plane`", path)
		}
		dir = parent
	}
}
