package api

// Names under which Sluice is known in a cluster.
const (
	FieldManager           = "sluice"
	Namespace              = "sluice-system"
	ServiceAccountWatcher  = "sluice-watcher"
	ServiceAccountExecutor = "sluice-executor"
	ServiceAccountAnalyzer = "sluice-analyzer"
	// ExecutorUser is the user name of the executor, which the admission policies know.
	ExecutorUser = "system:serviceaccount:" + Namespace + ":" + ServiceAccountExecutor
)

// SuffixCanary ends the names of objects that a release creates for the canary.
const SuffixCanary = "-canary"

// The ConfigMap in which users put Lua scripts.
const (
	ScriptNamespace = "kruise-rollout"
	ScriptConfigMap = "kruise-rollout-configuration"
)
