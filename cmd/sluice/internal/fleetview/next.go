package fleetview

import (
	"fmt"
	"slices"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
)

// Hint is a command that a user may type next, with its effect as an infinitive.
type Hint struct{ Does, Command string }

// NextCommands returns the commands that lead a FleetRollout on that waits for a person; nil if it waits for none.
func (s Style) NextCommands(r *api.FleetRollout) []Hint {
	status := r.Status
	hint := func(does, verb string, args ...string) Hint { return Hint{does, s.FleetCommand(verb, r, args...)} }
	edit := Hint{"to correct it", s.withContext(fmt.Sprintf("kubectl edit fleetrollout %s -n %s", r.Name, r.Namespace))}
	again := []Hint{hint("to let a cluster try again", "retry", "CLUSTER"), hint("to pass over a cluster", "skip", "CLUSTER")}
	back := hint("to take the version back everywhere", "rollback")
	switch status.Phase {
	case api.FleetPhaseIdle, "":
		return []Hint{hint("to release a version", "release", "--version", "VERSION")}
	case api.FleetPhaseWaiting:
		if status.Reason == "Approval" {
			return []Hint{hint("to approve", "approve"), hint("to reject", "reject")}
		}
		if status.Reason == "Delivery" {
			return []Hint{hint("to see which clusters wait, and deliver the version there", "targets")}
		}
	case api.FleetPhaseWithdrawing:
		return []Hint{hint("to pass over a cluster that does not go back", "skip", "CLUSTER")}
	case api.FleetPhaseWithdrawn:
		return []Hint{hint("to release another version", "release", "--version", "VERSION"), s.unblock(r)}
	case api.FleetPhaseAborted:
		return []Hint{hint("to release another version", "release", "--version", "VERSION"), hint("to begin this release again", "resume")}
	case api.FleetPhasePaused:
		switch status.Reason {
		case "Duration":
			return []Hint{hint("to go on now", "promote", "--reason", "WHY")}
		case "Rejected":
			return []Hint{back, hint("to take back the clusters that are under way", "abort"), hint("to go on all the same", "approve")}
		case "Paused":
			return s.ResumeCommands(r)
		}
		return append(slices.Clone(again), back)
	case api.FleetPhaseStalled:
		switch status.Reason {
		case "NothingProven":
			return append([]Hint{hint("to pass over the wave", "skip")}, again[0])
		case "HubRestored":
			return []Hint{hint("to compare the clusters", "targets"), hint("to go on", "resume")}
		case "HubCutOff":
			return []Hint{{"to see the clusters", s.withContext(s.program() + " fleet members")}}
		case "Blocked":
			return []Hint{hint("to release another version", "release", "--version", "VERSION"), s.unblock(r)}
		case "BudgetExceeded":
			return []Hint{hint("to see the clusters", "targets"), again[1]}
		}
		return []Hint{edit}
	}
	return nil
}

func (s Style) program() string {
	if s.Command == "" {
		return "sluice"
	}
	return s.Command
}

func (s Style) unblock(r *api.FleetRollout) Hint {
	key := "VERSION"
	if r.Status.Release != nil {
		key = fleet.KeyText(r.Status.Release.Key())
	}
	return Hint{"to allow this version again", s.FleetCommand("unblock", r, key)}
}

// ResumeCommands end each of the pauses that hold a FleetRollout: the one of a command, and the one in the spec.
func (s Style) ResumeCommands(r *api.FleetRollout) []Hint {
	var list []Hint
	if r.Status.Paused || !r.Spec.Paused {
		list = append(list, Hint{"to go on", s.FleetCommand("resume", r)})
	}
	if r.Spec.Paused {
		list = append(list, Hint{"to end the pause in spec.paused", s.withContext(fleet.SpecResumeCommand(r.Name, r.Namespace))})
	}
	return list
}

// ClusterCommand returns the command for a cluster of a FleetRollout that needs a person, by its entry in status.attention.
func (s Style) ClusterCommand(r *api.FleetRollout, a api.FleetAttention) string {
	cluster := a.Cluster
	if r.Status.Verb == api.FleetVerbWithdraw || r.Status.Verb == api.FleetVerbAbort { // there is nothing to retry
		return s.FleetCommand("skip", r, cluster)
	}
	switch a.Reason {
	case api.FleetReasonContainersDiffer: // another try would fail alike
		return s.FleetCommand("release", r, "--image", "CONTAINER=IMAGE")
	case "AwaitsPerson", "Overridden": // in the cluster itself, whose context this program does not know
		return fmt.Sprintf("%s get rollout %s -n %s --context %s", s.program(), r.Name, r.Namespace, cluster)
	}
	if refusal, _ := fleet.RetryRefusal(a.Phase, a.Reason); refusal != "" {
		return s.FleetCommand("skip", r, cluster)
	}
	return s.FleetCommand("retry", r, cluster)
}
