package main

// credulous mutants ignore verdicts of metrics.
func credulous() []mutant {
	return []mutant{
		{"metrics that failed stop nothing", []edit{{
			"pkg/planner/analysis.go", "if g.run.Phase != api.AnalysisFailed || g.of.OnFailure == api.FailurePause {", "if true {",
		}}, unit("planner", "TestAStepWithAnAnalysis|TestAReleaseUnderWatch")},
		{"a step is promoted by metrics that have not passed", []edit{{
			"pkg/planner/analysis.go", "if run.Phase != api.AnalysisPassed {", "if run.Phase == api.AnalysisFailed {",
		}}, unit("planner", "TestAStepWithAnAnalysis")},
		{"metrics of an earlier stay at the step count", []edit{{
			"pkg/planner/analysis.go", "return run != nil && run.Epoch == p.m.Epoch && run.PauseSeq == p.m.PauseSeq", "return run != nil && run.Epoch == p.m.Epoch",
		}}, unit("planner", "TestAStepWithAnAnalysis")},
		{"who lets go of an aborted release lets its version out", []edit{{
			"pkg/planner/abort.go", "if p.workloadGone() || p.rolledBack() || p.newVersion() {", "if true {",
		}}, unit("planner", "TestAnAbortedRelease")},
		{"sums are stored whatever is there", []edit{{
			"pkg/queue/analysis_state.go", "return q.sums.Update(ctx, run, data, revision)", "return q.sums.Put(ctx, run, data)",
		}}, unit("queue", "TestSumsAreStoredInPlace|TestManyWritersOfSums")},
	}
}

// innumerate mutants misjudge numbers.
func innumerate() []mutant {
	return []mutant{
		{"an answer without data is read as 0", []edit{{
			"pkg/analysis/measure.go", "\tlist, outcome, message := numbersOf(a.Value)\n", "\tlist, outcome, message := numbersOf(a.Value)\n\tif outcome == OutcomeNoData {\n\t\tlist, outcome = []float64{0}, \"\"\n\t}\n",
		}}, unit("analysis", "TestWhatOddAnswersMean")},
		{"the evidence of a worse canary is taken for a chance", []edit{{
			"pkg/analysis/next_compare.go", "case worse >= math.Log(1/spec.Compare.Alpha) &&", "case worse >= 1-spec.Compare.Alpha &&",
		}}, unit("analysis", "TestACanaryFailsOnceTheEvidenceIsWhatAlphaAsksFor")},
		{"a comparison decides without the time before the release", []edit{{
			"pkg/analysis/next_compare.go", " && evidence.Past.IsEnough():", ":",
		}}, unit("analysis", "TestAComparisonWaitsForThePast")},
		{"each tick of a burst is taken for an event of its own", []edit{{
			"pkg/analysis/past.go", "\treturn 1 << p.longest()\n", "\treturn 1\n",
		}}, unit("analysis", "TestWhatTheEvidenceSays")},
		{"a canary passes although it may be twice as bad as allowed", []edit{{
			"pkg/analysis/evidence.go", "return slices.Max(odds[ratioIndex(2*ratio):]) <= odds[0]+math.Log(mistaken) || e.isQuiet(2*ratio, samples)", "return true",
		}}, unit("analysis", "TestAQuietCanaryPasses")},
	}
}
