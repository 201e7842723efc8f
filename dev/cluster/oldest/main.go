// Command oldest runs a component of the oldest supported Kubernetes for `sluice-cluster up --kubernetes`: kube-apiserver, kube-controller-manager or
// kube-scheduler. It is a separate module, because no build has two versions of Kubernetes. It is no cluster: sluice-cluster provides etcd, kwok and all files.
package main

import (
	"fmt"
	"io"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	if len(os.Args) < 3 || os.Args[1] != "component" {
		fmt.Fprintln(os.Stderr, "This is for sluice-cluster up --kubernetes.")
		os.Exit(2)
	}
	// Standard input is as in sluice-cluster: one byte lets the component start, and the end of the input ends it.
	if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
		fmt.Fprintln(os.Stderr, "read from sluice-cluster:", err)
		os.Exit(2)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	// The libraries below read os.Args themselves.
	os.Args = os.Args[2:]
	switch os.Args[0] {
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllers.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	}
	fmt.Fprintf(os.Stderr, "there is no component %q\n", os.Args[0])
	os.Exit(2)
}
