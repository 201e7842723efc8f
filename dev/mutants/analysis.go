package main

func rollout(tests string) []string { return []string{"-run", tests, "./pkg/rollout"} }

// credulous mutants do not mind what metrics say.
func credulous() []mutant {
	return []mutant{
		{"metrics that failed stop nothing", []edit{{
			"pkg/rollout/analysis.go", "if g.run.Phase != api.AnalysisFailed || g.of.OnFailure == api.FailurePause {", "if true {",
		}}, [][]string{rollout("TestAStepWithAnAnalysis|TestAReleaseUnderWatch")}},
		{"a step is promoted by metrics that have not passed", []edit{{
			"pkg/rollout/analysis.go", "if run.Phase != api.AnalysisPassed {", "if run.Phase == api.AnalysisFailed {",
		}}, [][]string{rollout("TestAStepWithAnAnalysis")}},
		{"metrics of an earlier stay at the step count", []edit{{
			"pkg/rollout/analysis.go", "return run != nil && run.Epoch == p.m.Epoch && run.PauseSeq == p.m.PauseSeq", "return run != nil && run.Epoch == p.m.Epoch",
		}}, [][]string{rollout("TestAStepWithAnAnalysis")}},
		{"who lets go of an aborted release lets its version out", []edit{{
			"pkg/rollout/abort.go", "if p.workloadGone() || p.rolledBack() || p.newVersion() {", "if true {",
		}}, [][]string{rollout("TestAnAbortedRelease")}},
		{"sums are stored whatever is there", []edit{{
			"pkg/queue/sums.go", "return q.sums.Update(ctx, run, data, revision)", "return q.sums.Put(ctx, run, data)",
		}}, [][]string{queue("TestSumsAreStoredInPlace|TestManyWritersOfSums")}},
	}
}
