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

// Suffixes of the names of objects made during a release.
const (
	SuffixCanary      = "-canary"
	SuffixDisabledHPA = "-DisableByRollout"
)

// The ConfigMap in which users put Lua scripts, and the prefixes of its keys. The key of a
// custom resource goes on with <Kind>.<group>, that of an Ingress with its class.
const (
	ScriptNamespace        = "kruise-rollout"
	ScriptConfigMap        = "kruise-rollout-configuration"
	ScriptKeyPrefix        = "lua.traffic.routing."
	ScriptKeyIngressPrefix = "lua.traffic.routing.ingress."
)

// Values that OpenKruise writes into workloads to hold them.
const (
	MaxReadySeconds    int32 = 2147483646
	MaxProgressSeconds int32 = 2147483647
	MaxPartition       int32 = 32767
)
