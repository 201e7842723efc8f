package turn

// notYet are turns that nothing carries out so far.
func notYet() []turn {
	return []turn{
		{name: "rollback in batches", meaning: "With the annotation `rollouts.kruise.io/rollback-in-batch` a rollback goes step by step.",
			at: inSteps(), without: "the annotation is held as unsupported so far"},
	}
}
