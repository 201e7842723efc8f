package main

// astray mutants send requests to wrong places, or leave them there.
func astray() []mutant {
	return []mutant{
		{"a route leads to the canary before its gateway knows the copy of a policy", []edit{{
			"pkg/traffic/children_named.go", "record.Referenced, record.Copied = true, true", "record.Copied = true",
		}}, unit("traffic", "TestACopyOfAPolicyIsMadeBeforeARouteLeadsToTheCanary")},
		{"a canary is spoken to in plain text where the stable version is spoken to over TLS", []edit{{
			"pkg/traffic/policy.go", "if kind.lessSecure == nil || !kind.lessSecure(copied, canary.Object) {", "if kind.lessSecure == nil || !kind.lessSecure(copied, stable.Object) {",
		}}, unit("traffic", "TestACanaryIsSpokenToOverTLSAsTheStableVersionIs")},
		{"the share of a second Service goes to the canary of the first", []edit{{
			"pkg/traffic/release.go", "part.Service, part.CanaryService, part.Terms = other.Service, other.CanaryService, other.Terms", "part.Service, part.Terms = other.Service, other.Terms",
		}}, unit("traffic", "TestEachKindRoutesOneReleaseByTwoServices")},
		{"what a step has written is taken for the original", []edit{{
			"pkg/traffic/route.go", "\tcase known && untouched:\n\t\tp.original = stored\n", "\tcase known && untouched:\n\t\tp.original = live\n",
		}}, unit("traffic", "TestTwoReleasesOnOneObjectEndWithTheOriginalInEveryOrder")},
		{"a step that asks for less takes the last stable pod", []edit{{
			"pkg/planner/pods_share.go", "p.takesLast(p.m.Step) && !p.mayTakeLast(p.m.Step)", "p.takesLast(p.m.Step) && !p.mayTakeLast(p.m.Step) && false",
		}}, unit("planner", "TestEveryReachableState")},
		{"the share that a step asks for is told", []edit{{
			"pkg/planner/pods_share.go", "case p.stableTaken():", "case p.stableTaken() && false:",
		}}, unit("planner", "TestTheTrafficInForceIsTold")},
	}
}
