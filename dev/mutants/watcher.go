package main

// deaf mutants miss changes in the cluster: a release waits until the next resync.
func deaf() []mutant {
	return []mutant{
		{"of several Rollouts that name an object only the last one is told", []edit{{
			"pkg/watcher/index.go", "x.byObject[o] = append(x.byObject[o], name)", "x.byObject[o] = []types.NamespacedName{name}",
		}}, unit("watcher", "TestTheIndexFollowsWhatARolloutNames")},
		{"a change that may wait a moment is not told at all", []edit{{
			"pkg/watcher/hint.go", "\t\tw.gathered[name] = true\n", "",
		}}, unit("watcher", "TestWhatMayWaitIsToldInAMoment")},
	}
}
