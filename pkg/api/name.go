package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// FieldManager is the field manager of all writes of Sluice.
const FieldManager = "sluice"

// SuffixCanary ends the names of objects that a release creates for the canary.
const SuffixCanary = "-canary"

// The ConfigMap in which users put Lua scripts.
const (
	ScriptNamespace = "kruise-rollout"
	ScriptConfigMap = "kruise-rollout-configuration"
)

// Names of an installation that chooses no other ones.
const (
	DefaultNamespace = "sluice-system"
	DefaultWatcher   = "sluice-watcher"
	DefaultExecutor  = "sluice-executor"
	DefaultAnalyzer  = "sluice-analyzer"
)

// Installation says where Sluice is installed in a cluster. A cluster has one at most, because CRDs and admission policies belong to the whole cluster.
//
// +kubebuilder:object:generate=false
type Installation struct {
	// Namespace has all objects of Sluice that need a namespace.
	Namespace string
	// Watcher, Executor and Analyzer are the service accounts of the programs.
	Watcher, Executor, Analyzer string
}

// DefaultInstallation returns the installation that chooses no names.
func DefaultInstallation() Installation {
	return Installation{Namespace: DefaultNamespace, Watcher: DefaultWatcher, Executor: DefaultExecutor, Analyzer: DefaultAnalyzer}
}

// Accounts returns the service account of each program, by the name of the program: watcher, executor and analyzer.
func (i *Installation) Accounts() map[string]*string {
	return map[string]*string{"watcher": &i.Watcher, "executor": &i.Executor, "analyzer": &i.Analyzer}
}

// User returns the user name of a service account of the installation.
func (i Installation) User(account string) string {
	return serviceAccountPrefix + i.Namespace + ":" + account
}

// SplitServiceAccountUser returns the namespace and the name of the service account that has a user name. ok is false for other users.
func SplitServiceAccountUser(user string) (namespace, account string, ok bool) {
	rest, ok := strings.CutPrefix(user, serviceAccountPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ":")
}

const serviceAccountPrefix = "system:serviceaccount:"

// ExecutorUser returns the user name of the executors. The admission policies let no other user release what they hold.
func (i Installation) ExecutorUser() string { return i.User(i.Executor) }

// PrintCommand returns the command that prints the manifests of parts of the installation, or of all of it.
func (i Installation) PrintCommand(parts ...string) string {
	command := "sluice install --print"
	if i.Namespace != DefaultNamespace {
		command += " --namespace " + i.Namespace
	}
	usual, accounts := DefaultInstallation(), i.Accounts()
	for _, program := range slices.Sorted(maps.Keys(accounts)) {
		if account := *accounts[program]; account != *usual.Accounts()[program] {
			command += fmt.Sprintf(" --service-account %s=%s", program, account)
		}
	}
	if len(parts) > 0 {
		command += " --part " + strings.Join(parts, ",")
	}
	return command
}

// InstallCommand returns the command that installs parts of the installation again, or all of it.
func (i Installation) InstallCommand(parts ...string) string {
	return i.PrintCommand(parts...) + " | kubectl apply --server-side -f -"
}
