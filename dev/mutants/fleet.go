package main

// reckless mutants give permits to clusters that must not have them, or leave clusters with a version that they must not keep.
func reckless() []mutant {
	models, decisions := unit("fleet", "TestEveryStateOfSmallFleets"), unit("fleet", "TestDecisions")
	return []mutant{
		{"a grant before the permits of the last one are written", []edit{{"pkg/fleet/grant.go", "\t\tdone = false\n", ""}}, unit("fleet", "TestNoGrantBeforeTheLastOneIsSeen")},
		{"an answer to an older permit counts", []edit{{
			"pkg/fleet/cluster.go", "c.report.Epoch == c.target.Permit.Epoch && c.report.Seq == c.target.Permit.Seq", "c.report.Epoch > 0",
		}}, models},
		{"a health without a permit counts as completed", []edit{{
			"pkg/fleet/cluster.go", "!c.answered() || c.report.State != api.FleetReportCompleted", "c.report == nil || c.target == nil || c.report.State != api.FleetReportCompleted",
		}}, models},
		{"clusters under way use no concurrency", []edit{{"pkg/fleet/wave.go", "min(concurrency-l.busy, ", "min(concurrency, "}}, models},
		{"a lost cluster uses no concurrency", []edit{{
			"pkg/fleet/grant.go", "c.phase == api.FleetTargetPermitted || c.phase == api.FleetTargetProgressing || c.phase == api.FleetTargetUnknown",
			"c.phase == api.FleetTargetPermitted || c.phase == api.FleetTargetProgressing",
		}}, models},
		{"a wave passes without proof", []edit{{"pkg/fleet/wave.go", "n < spec.MinCompleted", "n < 0"}}, models},
		{"a paused release goes on", []edit{{"pkg/fleet/obstacle.go", "case p.status.Paused || p.seen.Paused:", "case p.seen.Paused:"}}, models},
		{"a rejected release goes on", []edit{{"pkg/fleet/obstacle.go", "p.status.Approvals[n-1].Decision == api.DecisionReject", "false"}}, models},
		{"a blocked version gets permits", []edit{{"pkg/fleet/obstacle.go", "case p.blocked(p.key()):", "case false:"}}, decisions},
		{"a budget of failed clusters is no limit", []edit{{"pkg/fleet/obstacle.go", "\t\tif n > limit {\n\t\t\treturn fmt.Sprintf(\"%d clusters of wave %s have failed", "\t\tif false {\n\t\t\treturn fmt.Sprintf(\"%d clusters of wave %s have failed"}}, models},
		{"a withdrawal leaves completed clusters", []edit{{
			"pkg/fleet/withdraw.go", "forward(c.target.Permit.Verb) || c.movedOn()", "forward(c.target.Permit.Verb) && !c.completed() || c.movedOn()",
		}}, models},
		{"a newer version leaves clusters under way", []edit{{
			"pkg/fleet/withdraw.go", "(p.outdated(c.target.Permit.Epoch) || ", "(",
		}}, decisions},
		{"a withdrawal forgets the clusters of the last grant", []edit{{
			"pkg/fleet/withdraw.go", "p.outdated(g.Epoch) && forward(g.Verb)", "false && forward(g.Verb)",
		}}, unit("fleet", "TestAWithdrawalTakesBackTheClustersOfTheLastGrant")},
		{"an approval counts for every pause", []edit{{
			"pkg/fleet/wave.go", "a.Epoch >= p.status.Began && a.PauseSeq == p.status.PauseSeq", "a.Epoch >= p.status.Began",
		}}, unit("fleet", "TestOneApprovalOnePause")},
		{"silence counts as soak", []edit{{"pkg/fleet/cluster.go", "if !reachable || c.unhealthy {", "if c.unhealthy {"}}, decisions},
		{"the epoch of a new hub begins again", []edit{{"pkg/fleet/plan.go", "max(highest+1, p.now.Unix())", "p.status.Epoch+1"}}, unit("fleet", "TestEpochsGrowOverAllThatIsKnown")},
	}
}
