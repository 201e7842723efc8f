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
		{"lost clusters end the hold of a wave", []edit{{
			"pkg/fleet/wave.go", "p.proven(w, spec) && p.enterPause(api.FleetWaveHoldPause, spec.HoldPause)", `p.enterStage(api.FleetWaveGoing, "NothingHeld")`,
		}}, models},
		{"a paused release goes on", []edit{{"pkg/fleet/obstacle.go", "\tcase p.status.Paused:\n", "\tcase false:\n"}}, models},
		{"a rejected release goes on", []edit{{"pkg/fleet/obstacle.go", "p.status.Approvals[n-1].Decision == api.DecisionReject", "false"}}, models},
		{"a blocked version gets permits", []edit{{"pkg/fleet/obstacle.go", "case p.blocked(p.key()):", "case false:"}}, decisions},
		{"executors of the hub overwrite each other", []edit{{"pkg/fleet/obstacle.go", "p.starting && (p.corrected() ||", "p.starting && (false ||"}}, unit("fleet", "TestTheHubStarts")},
		{"a budget of failed clusters is no limit", []edit{{"pkg/fleet/obstacle.go", "Failed.RoundDown(sizeOf(w)); n > limit {", "Failed.RoundDown(sizeOf(w)); n > limit && false {"}}, models},
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
		{"silence counts as soak", []edit{{"pkg/fleet/soak.go", "if !p.reachable(c) || c.report.Unhealthy {", "if c.report.Unhealthy {"}}, decisions},
		{"time in which no executor of the hub listened counts as soak", []edit{{"pkg/fleet/soak.go", "s.SoakingSince.Time.Before(m.HeardFrom)", "false"}}, unit("fleet", "TestEachClusterSoaksAtTheHold")},
		{"a cluster leaves the hold with the soak of another cluster", []edit{{"pkg/fleet/wave.go", "c.phase == api.FleetTargetAtHold && !c.soaked", "c.phase == api.FleetTargetAtHold && !c.soaked && false"}}, unit("fleet", "TestEachClusterSoaksAtTheHold")},
		{"the epoch of a new hub begins again", []edit{{"pkg/fleet/plan.go", "max(highest+1, p.now.Unix())", "p.status.Epoch+1"}}, unit("fleet", "TestEpochsGrowOverAllThatIsKnown")},
	}
}

// disobedient mutants let a cluster go on without a permit, or keep what the hub has withdrawn.
func disobedient() []mutant {
	states, permits := unit("planner", "TestEveryReachableState"), unit("planner", "TestHowFarAPermitGoes")
	back := unit("planner", "TestWhatAFleetTakesBack")
	return []mutant{
		{"a release begins without a permit", []edit{{"pkg/planner/idle.go", "if !p.permitted(1) {", "if false {"}}, states},
		{"a step begins without a permit", []edit{{"pkg/planner/step.go", "!p.ensureStep() || !p.permitted(p.m.Step+1)", "!p.ensureStep()"}}, states},
		{"a permit goes beyond its step", []edit{{"pkg/planner/fleet.go", "step > min(permit.HoldAt, steps)", "step > steps+1"}}, states},
		{"a permit for another version counts", []edit{{"pkg/planner/fleet.go", "!version.Named(permit.Version), p.permitRevision()", "p.permitRevision()"}}, permits},
		{"an expired permit counts", []edit{{"pkg/planner/fleet.go", "p.now.After(end.Add(permitSkew))", "false"}}, permits},
		{"images that a client took back are set again", []edit{{"pkg/planner/fleet_deliver.go", "return p.status.Fleet.Delivered.Number() != permit && p.seen.Workload.Delivered != permit", "return permit.Seq > 0 && p.seen.Workload.Version.Images != api.FleetImagesDigest(p.status.Fleet.Permit.Images)"}}, unit("planner", "TestHowImagesComeIntoACluster")},
		{"images are set while the hub holds the release", []edit{{"pkg/planner/fleet_deliver.go", "case permit.Verb == api.FleetVerbHold:", "case false:"}}, unit("planner", "TestHowImagesComeIntoACluster")},
		{"a cluster completes without the images of its permit", []edit{{"pkg/fleet/cluster.go", "return c.report.Stable.Images == api.FleetImagesDigest(permit.Images)", "return true"}}, unit("fleet", "TestACompletionUnderImages")},
		{"a permit begins every release of its version", []edit{{"pkg/planner/fleet.go", "case p.permitUsedUp():", "case false:"}}, unit("planner", "TestAPermitBeginsOneRelease")},
		{"the use of a permit is not on record", []edit{{"pkg/planner/fleet.go", "p.seen.PermitUsed.Before(used)", "false"}}, states},
		{"a jump goes beyond the permit", []edit{{"pkg/planner/interrupts.go", "refusal != nil && next > p.m.Step", "refusal != nil && false"}}, permits},
		{"a promotion goes beyond the permit", []edit{{"pkg/planner/command.go", "state.InStep() && p.fleetRefusal(end) != nil:", "state.InStep() && false:"}}, permits},
		{"a withdrawn version is let through", []edit{{"pkg/planner/fleet.go", "!block.Unblocked && version.Named(block.Version)", "false"}}, states},
		{"a withdrawal leaves what all pods run", []edit{{"pkg/planner/fleet_leave.go", "case present != \"\" && (", "case false && ("}}, back},
		{"a tool wins against a withdrawal", []edit{{"pkg/planner/fleet_leave.go", "case !p.rolledBack() && p.routesRestored():", "case false:"}}, back},
		{"a tool keeps pods of a release that has failed", []edit{{"pkg/planner/fleet_leave.go", " || p.templateFailed())", ")"}}, back},
		{"a withdrawal is answered before its pods are gone", []edit{{"pkg/planner/fleet_report.go", "done = p.onlyStableRuns()", "done = true"}}, states},
		{"a release that leaves its fleet is let go", []edit{{"pkg/planner/fleet_leave.go", "leaves := p.seen.Deleting || p.seen.Spec.Disabled || !p.governed()", "leaves := !p.governed()"}}, unit("planner", "TestAGovernedReleaseGivesTheStableTemplateBack")},
		{"a release whose status lost the fleet goes on", []edit{{"pkg/planner/fleet.go", "case used != api.PermitNumber{}:", "case false:"}}, permits},
	}
}
