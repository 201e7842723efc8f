// Command kubectl is kubectl, for machines without it. It is a separate program because the startup of a control plane's packages would take longer than most
// calls.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		serve(os.Stdin, os.Stdout)
		return
	}
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints and exits
	}
}
