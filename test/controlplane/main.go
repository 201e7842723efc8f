package controlplane

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
)

// Main runs the tests of a package with a shared control plane, and returns the exit code. The control plane has the
// CRDs, service accounts and roles of an installation. use gets it before the first test. With -short it does not
// exist, and Main does not call use. root is the path to the root of the module. crds are names of files in bin/crds, whose
// kinds the control plane serves in addition.
func Main(m *testing.M, root string, use func(*Cluster), crds ...string) int {
	flag.Parse()
	if testing.Short() {
		return m.Run()
	}
	plane, err := installed(context.Background(), root, crds)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer plane.Stop() //nolint:errcheck // the tests are over
	use(plane)
	return m.Run()
}

func installed(ctx context.Context, root string, crds []string) (*Cluster, error) {
	istio, err := IstioCRDs()
	if err != nil {
		return nil, err
	}
	files := []string{root + "/deploy/crds", istio}
	for _, name := range crds {
		files = append(files, root+"/bin/crds/"+name+".yaml")
	}
	plane, err := Start(ctx, Options{CRDs: files})
	if err != nil {
		return nil, err
	}
	if _, err := plane.Kubectl(ctx, "apply", "-f", root+"/deploy/namespace.yaml", "-f", root+"/deploy/rbac"); err != nil {
		return nil, errors.Join(fmt.Errorf("install roles: %w", err), plane.Stop())
	}
	return plane, nil
}
