package main

import (
	"flag"
	"fmt"
	"io"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// setLog writes errors to standard error, and all other messages only if verbose is set, because the controllers log each of their runs.
func setLog(verbose bool) error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	settings := map[string]string{"logtostderr": "true", "v": "4"}
	if !verbose {
		settings = map[string]string{"logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "ERROR"}
		klog.SetOutput(io.Discard)
	}
	for name, value := range settings {
		if err := flags.Set(name, value); err != nil {
			return fmt.Errorf("set how much is logged: %w", err)
		}
	}
	ctrl.SetLogger(klog.NewKlogr())
	return nil
}
