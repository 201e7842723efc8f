package fleet

import (
	"cmp"
	"fmt"
	"slices"

	"sluice.dev/sluice/pkg/api"
)

// followCommand carries out the command in the status, or refuses it. It takes the command away in both cases.
func (p *planner) followCommand() {
	c := p.status.Command
	if c == nil {
		return
	}
	p.status.Command = nil
	if refusal := p.refuseCommand(*c); refusal != "" {
		p.record(string(p.status.Phase), string(p.status.Phase), "CommandRefused", fmt.Sprintf("the command %s was refused: %s", c.Action, refusal), c.Actor)
		return
	}
	said := withComment(fmt.Sprintf("%s by %s", c.Action, c.Actor), c.Comment)
	switch c.Action {
	case api.FleetCommandApprove:
		p.decide(*c, api.DecisionApprove)
	case api.FleetCommandReject:
		p.decide(*c, api.DecisionReject)
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
	case api.FleetCommandRetry:
		p.status.Skipped = slices.DeleteFunc(p.status.Skipped, func(name string) bool { return slices.Contains(c.Clusters, name) })
		p.status.Retries = mergeNames(p.status.Retries, c.Clusters)
	case api.FleetCommandSkip:
		if len(c.Clusters) == 0 {
			p.enterStage(api.FleetWaveSkipped, "Skipped")
			break
		}
		p.status.Retries = slices.DeleteFunc(p.status.Retries, func(name string) bool { return slices.Contains(c.Clusters, name) })
		p.status.Skipped = mergeNames(p.status.Skipped, c.Clusters)
	case api.FleetCommandPromote:
		p.status.Promoted, p.status.SkipSoak = max(c.Through, p.status.Wave), c.SkipSoak
	case api.FleetCommandUnblock:
		p.unblock(c.Version)
	}
	p.record(string(p.status.Phase), string(p.status.Phase), string(c.Action), said, c.Actor)
}

// refuseCommand says why a command is not possible, "" if it is.
func (p *planner) refuseCommand(c api.FleetCommand) string {
	switch {
	case p.status.Release == nil:
		return "there is no release"
	case c.Epoch != p.status.Epoch:
		return fmt.Sprintf("it is for release %d, and release %d is under way", c.Epoch, p.status.Epoch)
	case p.status.Verb == api.FleetVerbWithdraw && c.Action != api.FleetCommandUnblock && c.Action != api.FleetCommandSkip && c.Action != api.FleetCommandResume:
		return "the version is withdrawn"
	}
	switch c.Action {
	case api.FleetCommandApprove:
		waits := p.waveKnown() && (p.wave().Stage == api.FleetWaveHoldPause || p.wave().Stage == api.FleetWavePause)
		switch {
		case p.rejection() != nil && c.PauseSeq == p.status.PauseSeq:
			return ""
		case !waits || c.PauseSeq != p.status.PauseSeq:
			return "no wave waits for this approval"
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

// waveKnown reports whether the status has the wave under way.
func (p *planner) waveKnown() bool {
	return p.status.Wave > 0 && int(p.status.Wave) <= len(p.status.Waves)
}

// decide records a decision about the pause under way.
func (p *planner) decide(c api.FleetCommand, d api.Decision) {
	p.status.Approvals = append(p.status.Approvals, api.FleetApproval{
		Wave: p.status.Wave, Epoch: p.status.Epoch, PauseSeq: p.status.PauseSeq, Decision: d, Actor: c.Actor, Time: p.microNow(), Comment: c.Comment,
	})
	p.status.Approvals = latest(p.status.Approvals, api.MaxApprovals)
}

// unblock lets clusters get a version again. If spec.release still names it, its release begins again with the first wave.
func (p *planner) unblock(key string) {
	p.mergeBlock(api.FleetBlock{Version: key, Epoch: max(p.status.Epoch, p.blockEpoch(key)) + 1, Unblocked: true})
	if p.status.Verb == api.FleetVerbWithdraw && p.key() == key && p.seen.Release.Key() == key {
		p.beginRelease()
	}
}

func mergeNames(list, more []string) []string {
	all := slices.Concat(list, more)
	slices.Sort(all)
	return slices.Compact(all)
}

func withComment(text, comment string) string {
	if comment == "" {
		return text
	}
	return text + ": " + comment
}
