package fleet

import (
	"cmp"
	"fmt"

	"sluice.dev/sluice/pkg/api"
)

// followCommand carries out the command in the status, or refuses it. It takes the command away in both cases. A command about clusters waits in the
// planner until these are read.
func (p *planner) followCommand() {
	c := p.status.Command
	if c == nil {
		return
	}
	p.status.Command = nil
	if refusal := p.refuseCommand(*c); refusal != "" {
		p.recordRefusal(*c, refusal)
		return
	}
	if len(c.Clusters) > 0 && (c.Action == api.FleetCommandRetry || c.Action == api.FleetCommandSkip) {
		p.clusterCommand = c
		return
	}
	said := withComment(fmt.Sprintf("%s by %s", c.Action, c.Actor), c.Comment)
	switch c.Action {
	case api.FleetCommandApprove:
		p.decide(api.FleetApproval{Decision: api.DecisionApprove, Actor: c.Actor, Comment: c.Comment})
	case api.FleetCommandReject:
		p.decide(api.FleetApproval{Decision: api.DecisionReject, Actor: c.Actor, Comment: c.Comment})
	case api.FleetCommandPause:
		p.status.Paused = true
	case api.FleetCommandResume:
		p.status.Paused, p.status.Restored = false, false
		if p.status.Verb == api.FleetVerbAbort {
			p.beginRelease()
		}
		if p.waveKnown() {
			p.wave().DeliveryFrom = p.microNow()
		}
	case api.FleetCommandRollback:
		p.beginWithdrawal("RolledBack", said, c.Actor)
		return
	case api.FleetCommandAbort:
		p.beginEpoch(api.FleetVerbAbort)
		p.status.Reason = "Aborted"
	case api.FleetCommandSkip:
		p.enterStage(api.FleetWaveSkipped, "Skipped")
	case api.FleetCommandPromote:
		p.status.Promoted, p.status.SkipSoak, p.status.SkipAnalyses = max(c.Through, p.status.Wave), c.SkipSoak, c.SkipAnalyses
	case api.FleetCommandUnblock:
		p.unblock(c.Version)
	}
	p.record(string(p.status.Phase), string(p.status.Phase), string(c.Action), said, c.Actor)
}

func (p *planner) recordRefusal(c api.FleetCommand, why string) {
	p.record(string(p.status.Phase), string(p.status.Phase), "CommandRefused", fmt.Sprintf("the command %s was refused: %s", c.Action, why), c.Actor)
}

// refuseCommand says why a command is not possible, "" if it is. [planner.refuseClusters] looks at the clusters that it names.
func (p *planner) refuseCommand(c api.FleetCommand) string {
	switch {
	case p.status.Release == nil:
		return "there is no release"
	case c.Epoch != p.status.Epoch:
		return fmt.Sprintf("it is for release %d, and release %d is under way", c.Epoch, p.status.Epoch)
	case p.status.Verb == api.FleetVerbWithdraw && c.Action != api.FleetCommandUnblock && c.Action != api.FleetCommandSkip && c.Action != api.FleetCommandResume:
		return fmt.Sprintf("the version is withdrawn; to allow it again, type: sluice fleet unblock %s %s -n %s", p.seen.Name, p.key(), p.seen.Namespace)
	case p.status.Verb == api.FleetVerbAbort && goesForward(c.Action):
		return fmt.Sprintf("the release is aborted; to begin it again, type: sluice fleet resume %s -n %s", p.seen.Name, p.seen.Namespace)
	}
	switch c.Action {
	case api.FleetCommandApprove:
		waits := p.waveKnown() && (p.wave().Stage == api.FleetWaveHoldPause || p.wave().Stage == api.FleetWavePause)
		switch {
		case p.rejection() != nil && c.PauseSeq == p.status.PauseSeq:
			return ""
		case !waits || c.PauseSeq != p.status.PauseSeq:
			return "no wave waits for this approval"
		case TimedPause(p.status):
			return fmt.Sprintf("the pause of wave %s ends by itself; to go on now, type: sluice fleet promote %s -n %s --reason WHY", p.wave().Name, p.seen.Name, p.seen.Namespace)
		case p.decision() != "":
			return "the pause is decided already"
		}
	case api.FleetCommandReject:
		if c.PauseSeq != p.status.PauseSeq || p.status.Verb != api.FleetVerbRelease {
			return "it is about another pause than the one under way"
		}
	case api.FleetCommandRetry:
		if len(c.Clusters) == 0 {
			return "it names no cluster"
		}
	case api.FleetCommandSkip:
		if len(c.Clusters) == 0 && (!p.waveKnown() || p.status.Phase != api.FleetPhaseStalled || p.status.Reason != "NothingProven") {
			return "it names no cluster, and no wave stands still because nothing is proven"
		}
	case api.FleetCommandPromote:
		if c.Through != 0 && c.Through < p.status.Wave {
			return fmt.Sprintf("wave %d has passed", c.Through)
		}
	case api.FleetCommandUnblock:
		switch {
		case !p.blocked(c.Version):
			return fmt.Sprintf("the version %q is not blocked", c.Version)
		case p.seen.SpecProblem != "":
			return p.seen.SpecProblem
		}
	case api.FleetCommandResume:
		if p.status.Verb == api.FleetVerbAbort && (p.seen.SpecProblem != "" || p.seen.Release.Key() == "") {
			return cmp.Or(p.seen.SpecProblem, "spec.release names no version")
		}
	case api.FleetCommandPause, api.FleetCommandRollback, api.FleetCommandAbort:
	default:
		return "this version of Sluice does not know it"
	}
	return ""
}

// goesForward reports whether a command is about the way forward of a release, and has no effect while the release is aborted.
func goesForward(action api.FleetCommandAction) bool {
	switch action {
	case api.FleetCommandApprove, api.FleetCommandReject, api.FleetCommandPause, api.FleetCommandPromote, api.FleetCommandRetry:
		return true
	}
	return false
}

// TimedPause reports whether the pause of the wave under way ends by itself. An approval does not end such a pause: it stands for an approval only.
func TimedPause(s api.FleetRolloutStatus) bool {
	if s.Plan == nil || s.Wave < 1 || int(s.Wave) > min(len(s.Plan.Waves), len(s.Waves)) {
		return false
	}
	wave := s.Plan.Waves[s.Wave-1]
	pause := wave.Pause
	if s.Waves[s.Wave-1].Stage == api.FleetWaveHoldPause {
		if wave.HoldAt == nil {
			return false
		}
		pause = wave.HoldAt.Pause
	}
	return pause != nil && pause.Duration != nil
}

// waveKnown reports whether the status has the wave under way.
func (p *planner) waveKnown() bool {
	return p.status.Wave > 0 && int(p.status.Wave) <= len(p.status.Waves)
}

// decide records a decision about the pause under way, and returns the record.
func (p *planner) decide(a api.FleetApproval) api.FleetApproval {
	a.Wave, a.Epoch, a.PauseSeq, a.Time = p.status.Wave, p.status.Epoch, p.status.PauseSeq, p.microNow()
	p.status.Approvals = latest(append(p.status.Approvals, a), api.MaxApprovals)
	return a
}

// unblock lets clusters get a version again. If spec.release still names it, its release begins again with the first wave.
func (p *planner) unblock(key string) {
	p.mergeBlock(api.FleetBlock{Version: key, Epoch: max(p.status.Epoch, p.blockEpoch(key)) + 1, Unblocked: true})
	if p.status.Verb == api.FleetVerbWithdraw && p.key() == key && p.seen.Release.Key() == key {
		p.beginRelease()
	}
}

func withComment(text, comment string) string {
	if comment == "" {
		return text
	}
	return text + ": " + comment
}
