package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	_ "time/tzdata" // CronJobs name time zones, and the machine may lack a database of them

	"github.com/spf13/pflag"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwokcmd "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	kwoksignals "sigs.k8s.io/kwok/pkg/utils/signals"
)

// These components run as children of `up`, each in a separate process: their metrics registries and feature gates are global and conflict with each other.
const (
	kubeAPIServer         = "kube-apiserver"
	kubeControllerManager = "kube-controller-manager"
	kubeScheduler         = "kube-scheduler"
	kwok                  = "kwok"
)

// component runs the component args[0] with the flags args[1:] and returns its exit code. Standard input is its lifeline to `up`: one byte lets it start, and
// the end of the input ends it.
func component(args []string) int {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	if err := awaitParent(os.Stdin); err != nil {
		fmt.Fprintf(os.Stderr, "%s was started by hand; use `sluice-cluster up`: %v\n", args[0], err)
		return 2
	}
	// The libraries below read os.Args themselves.
	os.Args = args
	switch args[0] {
	case kubeAPIServer:
		return cli.Run(apiserver.NewAPIServerCommand())
	case kubeControllerManager:
		return cli.Run(controllers.NewControllerManagerCommand())
	case kubeScheduler:
		return cli.Run(scheduler.NewSchedulerCommand())
	case kwok:
		return runKwok()
	}
	fmt.Fprintf(os.Stderr, "there is no component %q\n", args[0])
	return 2
}

// awaitParent returns when the parent has written one byte. From then on it ends the process when the parent closes its end or dies.
func awaitParent(lifeline io.Reader) error {
	if _, err := io.ReadFull(lifeline, make([]byte, 1)); err != nil {
		return fmt.Errorf("read from the parent: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, lifeline)
		os.Exit(3)
	}()
	return nil
}

// forgetGlobalFlags drops the global flags that packages of the other components have registered, such as their --version, which conflicts with kwok's.
func forgetGlobalFlags() {
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ExitOnError)
}

func runKwok() int {
	forgetGlobalFlags()
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, logger := kwoklog.InitFlags(kwoksignals.SetupSignalContext(), flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err == nil {
		command := kwokcmd.NewCommand(ctx)
		command.PersistentFlags().AddFlagSet(flags)
		err = command.ExecuteContext(ctx)
	}
	if err != nil && !errors.Is(err, ctx.Err()) {
		logger.Error("kwok ended", err)
		return 1
	}
	return 0
}
