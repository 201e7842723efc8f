// Command sluice-cluster is a Kubernetes control plane in one binary: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok. kwok plays the
// kubelets of nodes that exist only as objects. The control plane is for demos and tests on one machine; it is no cluster to keep data in, because it syncs
// nothing to disk. Its one invariant: when the process of `up` ends for any reason, all processes that it started end too.
package main

import (
	"fmt"
	"os"
)

const usage = `sluice-cluster is a Kubernetes control plane for demos and tests.

  sluice-cluster up --dir DIR [flags]   start a cluster; -h lists the flags
`

func main() {
	args := os.Args
	if len(args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	switch args[1] {
	case "up":
		os.Exit(runUp(args[2:]))
	case "component":
		// Hidden: `up` starts its children with this command.
		os.Exit(component(args[2:]))
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
}
