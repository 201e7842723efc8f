package release

// This file decides which commands a user can give to a Rollout, and reports their results. A command counts only for the release that the user has
// seen. If the Rollout has moved on, the command does not count for a later release.

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Sender is the user who gives a command.
type Sender struct {
	// User is the user's name as the API server knows it.
	User string
	// Comment is the user's reason.
	Comment string
	// Program is the name under which the user calls this program.
	Program string
}

// NewCommand returns the command for the current state of the Rollout. The error tells the user why the command would have no effect.
func NewCommand(r *api.Rollout, action api.CommandAction, by Sender) (api.Command, error) {
	name, program := r.Namespace+"/"+r.Name, by.Program
	c := api.Command{Action: action, Actor: by.User, Comment: by.Comment}
	if len(by.Comment) > maxComment {
		return c, fmt.Errorf("the reason has %d characters; give at most %d", len(by.Comment), maxComment)
	}
	if r.Status.Phase == "" || r.Status.Sluice == nil {
		return c, fmt.Errorf("Rollout %s has not been looked at yet, so there is nothing to %s; find out why with: %s check", name, commandVerb(action), program)
	}
	c.Epoch = r.Status.Sluice.Epoch
	switch action {
	case api.CommandAbort:
		return c, checkStoppable(r, action, program)
	case api.CommandRetry:
		return c, checkRetriable(r, program)
	case api.CommandPromote:
		return c, checkStoppable(r, action, program)
	case api.CommandApprove:
		c.PauseSeq = r.Status.Sluice.PauseSeq
		return c, checkForcible(r, program)
	case api.CommandOverride:
		return c, checkOverridable(r, program)
	}
	return c, fmt.Errorf("%q is no command", action)
}

// maxComment is the maximum length of a comment in the schema.
const maxComment = 1024

func commandVerb(action api.CommandAction) string {
	return strings.ToLower(string(action))
}

// checkStoppable returns an error if the action, an abort or a promotion, cannot end the release.
func checkStoppable(r *api.Rollout, action api.CommandAction, program string) error {
	name, status := r.Namespace+"/"+r.Name, r.Status
	state := rollout.State(status.Sluice.State)
	switch {
	case state == rollout.StateAborted && action == api.CommandAbort:
		return fmt.Errorf("the release of Rollout %s is aborted already: %s", name, whyNothingToDo(r))
	case state == rollout.StateAborted:
		return fmt.Errorf("the release of Rollout %s was aborted, so there is nothing to %s; try it again with: %s retry %s -n %s", name, commandVerb(action), program, r.Name, r.Namespace)
	case state == rollout.StateFinalising && status.Sluice.FinaliseReason == api.FinaliseSuccess && action == api.CommandAbort:
		return fmt.Errorf("the release of Rollout %s has all its approvals, or was promoted, so there is nothing to abort: %s; go back with: %s undo %s -n %s",
			name, status.Message, program, r.Name, r.Namespace)
	case state == rollout.StateFinalising || state == rollout.StateCompleted:
		return fmt.Errorf("the release of Rollout %s is ending already, so there is nothing to %s: %s; follow it with: %s get rollout %s -n %s -w",
			name, commandVerb(action), status.Message, program, r.Name, r.Namespace)
	case status.Phase != api.PhaseProgressing:
		return fmt.Errorf("Rollout %s is %s: no release is under way, so there is nothing to %s", name, status.Phase, commandVerb(action))
	case action == api.CommandPromote && !state.InStep():
		return fmt.Errorf("the release of Rollout %s has no step under way yet, so there is nothing to promote: %s. Wait for it with: %s get rollout %s -n %s -w",
			name, status.Message, program, r.Name, r.Namespace)
	}
	return nil
}

func checkRetriable(r *api.Rollout, program string) error {
	name, status := r.Namespace+"/"+r.Name, r.Status
	switch {
	case rollout.State(status.Sluice.State) == rollout.StateAborted && status.Sluice.FinaliseReason == api.FinaliseRollback && !HeldFor(r, rollout.ReasonStableMissing):
		return fmt.Errorf("the workload of Rollout %s gets its stable version back, so there is nothing to retry: release the new version again", name)
	case rollout.State(status.Sluice.State) == rollout.StateAborted:
		return nil
	case status.Phase == api.PhaseProgressing:
		return fmt.Errorf("the release of Rollout %s is under way and was not aborted, so there is nothing to retry: %s; follow it with: %s get rollout %s -n %s -w",
			name, status.Message, program, r.Name, r.Namespace)
	}
	kind, workload := WorkloadOf(r)
	return fmt.Errorf("Rollout %s is %s: no release was aborted, so there is nothing to retry; a release starts when the pod template of %s %s changes",
		name, status.Phase, kind, workload)
}

func checkForcible(r *api.Rollout, program string) error {
	name, status := r.Namespace+"/"+r.Name, r.Status
	switch state := rollout.State(status.Sluice.State); {
	case state.TakesForcedApproval():
		return nil
	case state == rollout.StateAborted:
		return fmt.Errorf("the release of Rollout %s was aborted, so there is nothing to approve; try it again with: %s retry %s -n %s", name, program, r.Name, r.Namespace)
	}
	if status.Phase != api.PhaseProgressing {
		return fmt.Errorf("Rollout %s is %s: no release is under way, so there is nothing to approve", name, status.Phase)
	}
	return fmt.Errorf("step %d of Rollout %s can be approved with --force while it is analysed or paused, and it is in state %s: %s. Wait for it with: %s get rollout %s -n %s -w",
		status.Sluice.Step, name, status.Sluice.State, status.Message, program, r.Name, r.Namespace)
}

// checkOverridable returns an error if the release does not wait for permits of a fleet.
func checkOverridable(r *api.Rollout, program string) error {
	name, f := r.Namespace+"/"+r.Name, r.Status.Fleet
	switch {
	case r.Spec.Fleet == nil:
		return fmt.Errorf("Rollout %s has no spec.fleet, so its releases need no permits, and there is nothing to override", name)
	case f == nil:
		return fmt.Errorf("no executor has read spec.fleet of Rollout %s yet, so there is nothing to override; find out why with: %s check", name, program)
	case f.Override != nil && f.Override.Release == r.Status.Sluice.Epoch:
		return fmt.Errorf("the release of Rollout %s goes on without permits already (%s: %s)", name, f.Override.Actor, f.Override.Reason)
	}
	if err := checkStoppable(r, api.CommandOverride, program); err != nil {
		return err
	}
	for _, block := range f.Blocked {
		if !block.Unblocked && f.Releasing.Named(block.Version) {
			return fmt.Errorf("the fleet has withdrawn %s, and an override does not release it; release another version, or type at the hub: %s fleet unblock %s %s -n %s",
				block.Version, program, f.FleetRollout.Name, block.Version, f.FleetRollout.Namespace)
		}
	}
	return nil
}

// whyNothingToDo returns the message of the Rollout about its abort.
func whyNothingToDo(r *api.Rollout) string {
	c := FindCondition(r, api.ConditionProgressing)
	if c != nil && c.Reason == api.ReasonAborted && c.Status != corev1.ConditionUnknown && c.Message != "" {
		return c.Message
	}
	return r.Status.Message
}

// CommandPatch returns the merge patch of the status that gives a command, bound to the resource version of r. The patch removes the fields of an
// earlier command that this command does not have.
func CommandPatch(r *api.Rollout, c api.Command) ([]byte, error) {
	fields := map[string]any{"action": c.Action, "epoch": c.Epoch, "actor": c.Actor, "pauseSeq": nil, "comment": nil}
	if c.PauseSeq != 0 {
		fields["pauseSeq"] = c.PauseSeq
	}
	if c.Comment != "" {
		fields["comment"] = c.Comment
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": r.ResourceVersion},
		"status":   map[string]any{"command": fields},
	})
}

// PredictCommand describes the effect of the command on the Rollout.
func PredictCommand(r *api.Rollout, c api.Command) string {
	m := r.Status.Sluice
	switch c.Action {
	case api.CommandAbort:
		return fmt.Sprintf("all traffic goes back to the stable version; the new version stays held until it is retried, replaced or rolled back (by %s)", c.Actor)
	case api.CommandRetry:
		return fmt.Sprintf("the new version is released again from step 1 (by %s)", c.Actor)
	case api.CommandPromote:
		return fmt.Sprintf("the steps that are left are skipped, with their pauses and analyses: the new version gets everything (by %s)", c.Actor)
	case api.CommandOverride:
		return fmt.Sprintf("the release goes on without permits of FleetRollout %s; its pauses and its metrics count (by %s)", r.Status.Fleet.FleetRollout, c.Actor)
	}
	text := fmt.Sprintf("step %d goes on regardless of its metrics (by %s)", m.Step, c.Actor)
	if said := metricsObjection(r); said != "" {
		text += ": " + said
	}
	return text
}

// metricsObjection returns the result of the metrics that speaks against the next step.
func metricsObjection(r *api.Rollout) string {
	all := r.Status.Analysis
	if all == nil {
		return ""
	}
	for _, run := range []*api.AnalysisRun{all.Step, all.Release} {
		if run != nil && run.Epoch == r.Status.Sluice.Epoch && run.Phase != api.AnalysisPassed && run.Phase != api.AnalysisPassing {
			return fmt.Sprintf("%s: %s", run.Phase, run.Message)
		}
	}
	return ""
}

// ErrCommandRefused is wrapped by the errors of commands that the executor removed without following them.
var ErrCommandRefused = errors.New("not followed")

// CommandResult describes the result of a command. done reports that the executor has removed the command. The error wraps [ErrCommandRefused].
func CommandResult(r *api.Rollout, c api.Command, program string) (text string, done bool, err error) {
	name, status := r.Namespace+"/"+r.Name, r.Status
	switch given := status.Command; {
	case given != nil && *given == c:
		return "", false, nil
	case given != nil:
		return "", true, fmt.Errorf("%w: %s has told Rollout %s something else meanwhile (%s)", ErrCommandRefused, given.Actor, name, given.Action)
	case status.Sluice == nil:
		return "", true, fmt.Errorf("%w: a user has deleted and created Rollout %s meanwhile", ErrCommandRefused, name)
	}
	text, followed := commandOutcome(r, c)
	if !followed {
		return "", true, fmt.Errorf("%w: Rollout %s has moved on meanwhile and is in state %s now: %s. Why, tells: kubectl describe rollout %s -n %s",
			ErrCommandRefused, name, status.Sluice.State, status.Message, r.Name, r.Namespace)
	}
	return text, true, nil
}

func commandOutcome(r *api.Rollout, c api.Command) (text string, followed bool) {
	name, m := r.Namespace+"/"+r.Name, r.Status.Sluice
	state := rollout.State(m.State)
	switch c.Action {
	case api.CommandAbort:
		if m.FinaliseReason == api.FinaliseRollback && (state == rollout.StateFinalising || state == rollout.StateIdle) { // the executor rolled it back in batches
			return "all pods of Rollout " + name + " go back to the stable version at once", m.Epoch == c.Epoch
		}
		return "the release of Rollout " + name + " is aborted: " + whyNothingToDo(r), m.Epoch == c.Epoch && state == rollout.StateAborted
	case api.CommandRetry:
		return "the release of Rollout " + name + " begins again",
			m.Epoch > c.Epoch || state == rollout.StateFinalising && m.FinaliseReason == api.FinaliseRetry
	case api.CommandPromote:
		return "the release of Rollout " + name + " skips its remaining steps", m.Epoch == c.Epoch &&
			m.FinaliseReason == api.FinaliseSuccess && (state == rollout.StateFinalising || state == rollout.StateIdle)
	case api.CommandOverride:
		f := r.Status.Fleet
		return "the release of Rollout " + name + " goes on without permits of its fleet",
			m.Epoch == c.Epoch && f != nil && f.Override != nil && f.Override.Release == c.Epoch && f.Override.Actor == c.Actor
	}
	for _, a := range r.Status.Approvals {
		if a.Forced && a.Epoch == c.Epoch && a.PauseSeq == c.PauseSeq {
			return fmt.Sprintf("step %d of Rollout %s is approved by %s against its metrics", a.Step, name, a.Actor), true
		}
	}
	return "", false
}

// CommandAfterDeletion reports whether the executor has deleted all pods of the canary after an abort. The error explains why it cannot.
func CommandAfterDeletion(r *api.Rollout, c api.Command) (text string, done bool, err error) {
	name, m := r.Namespace+"/"+r.Name, r.Status.Sluice
	switch {
	case m == nil || m.Epoch != c.Epoch:
		return "", true, fmt.Errorf("another release of Rollout %s has begun: %s", name, r.Status.Message)
	case rollout.State(m.State) != rollout.StateAborted:
		return fmt.Sprintf("Rollout %s is %s: %s", name, r.Status.Phase, r.Status.Message), true, nil
	case r.Status.CanaryStatus != nil && r.Status.CanaryStatus.CanaryReplicas > 0:
		return fmt.Sprintf("%d pods of the canary are left", r.Status.CanaryStatus.CanaryReplicas), false, nil
	}
	return "nothing of the canary of Rollout " + name + " is left", true, nil
}
