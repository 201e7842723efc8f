package turn

// notYet are turns that nothing carries out so far.
func notYet() []turn {
	return []turn{
		{name: "rollback in batches", meaning: "With the annotation `rollouts.kruise.io/rollback-in-batch` a rollback goes step by step.",
			at: inSteps(), without: "the annotation is held as unsupported so far"},
		{name: "Rollout deleted and workload kept", meaning: "The workload stays paused at the step that it has come to, for its owner to resume.",
			at: atPauses(), without: "there is no option to keep a workload paused so far"},
	}
}
