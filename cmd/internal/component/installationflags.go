package component

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"sluice.dev/sluice/pkg/api"
)

// InstallationFlags say where Sluice is installed. In a pod, the environment has their defaults, from the downward API.
type InstallationFlags struct{ api.Installation }

// AddFlags registers the flags.
func (f *InstallationFlags) AddFlags(flags *pflag.FlagSet) {
	usual := api.DefaultInstallation()
	textFlag(flags, &f.Namespace, "install-namespace", usual.Namespace, "namespace in which Sluice is installed")
	textFlag(flags, &f.Watcher, "watcher-service-account", usual.Watcher, "service account of the watchers, in --install-namespace")
	textFlag(flags, &f.Executor, "executor-service-account", usual.Executor, "service account of the executors, whose writes the admission policies and the webhook let pass")
	textFlag(flags, &f.Analyzer, "analyzer-service-account", usual.Analyzer, "service account of the analyzers")
}

// textFlag registers a flag whose default is in the environment, or usual without it.
func textFlag(flags *pflag.FlagSet, into *string, name, usual, usage string) {
	variable, value := environmentDefault(name)
	flags.StringVar(into, name, cmp.Or(value, usual), fmt.Sprintf("%s ($%s)", usage, variable))
}

// environmentDefault returns the name and the value of the environment variable that has the default of a flag.
func environmentDefault(flag string) (name, value string) {
	name = Variable(flag)
	return name, os.Getenv(name)
}

// Variable returns the name of the environment variable that has the default of a flag: SLUICE_FLEET_MEMBER for fleet-member.
func Variable(flag string) string {
	return "SLUICE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
