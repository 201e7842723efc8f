package release

// This file decides whether a release can jump to another step, builds the jump, and reports its result. If the release has left the step that the
// user has seen, it does not jump.

import (
	"encoding/json"
	"errors"
	"fmt"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Jump identifies one jump of one release.
type Jump struct {
	Epoch int64
	// From is the step that the release was at, and To is the target step; both are counted from 1.
	From, To int32
	// Seq is the number of the latest transition before the jump.
	Seq int64
}

// NewJump returns the jump of the Rollout to a step. The error tells a user of program why an executor would not follow the jump.
func NewJump(r *api.Rollout, to int32, program string) (Jump, error) {
	status, name, steps := r.Status, r.Namespace+"/"+r.Name, len(Steps(r))
	current := r.Status.Common()
	switch {
	case status.Phase == "":
		return Jump{}, fmt.Errorf("Rollout %s has not been looked at yet, so there is nothing to jump in; find out why with: %s check", name, program)
	case to < 1 || int(to) > steps:
		return Jump{}, fmt.Errorf("Rollout %s has no step %d; choose one from 1 to %d", name, to, steps)
	case IsAborted(r):
		return Jump{}, fmt.Errorf("the release of Rollout %s was aborted, so there is nothing to jump in; try it again with: %s retry %s -n %s", name, program, r.Name, r.Namespace)
	case status.Phase != api.PhaseProgressing || current == nil || status.Sluice == nil:
		return Jump{}, fmt.Errorf("Rollout %s is %s: no release is under way, so there is nothing to jump in", name, status.Phase)
	case !rollout.State(status.Sluice.State).InStep():
		return Jump{}, fmt.Errorf("the release of Rollout %s is in state %s and in no step: %s. Follow it with: %s get rollout %s -n %s -w",
			name, status.Sluice.State, status.Message, program, r.Name, r.Namespace)
	case r.Spec.Strategy.Paused:
		return Jump{}, fmt.Errorf("Rollout %s is paused as a whole, and would not follow; let it go on first: %s resume %s -n %s", name, program, r.Name, r.Namespace)
	case to == rollout.NextStepIndex(status.Sluice.Step, steps):
		return Jump{}, fmt.Errorf("step %d is the one that follows step %d in any case, so that there is nothing to jump over; once that is paused, go on with: %s approve %s -n %s",
			to, status.Sluice.Step, program, r.Name, r.Namespace)
	}
	return Jump{Epoch: status.Sluice.Epoch, From: status.Sluice.Step, To: to, Seq: status.Sluice.TransitionSeq}, nil
}

// JumpPatch returns the merge patch of the status for a jump, bound to the resource version of r.
func JumpPatch(r *api.Rollout, j Jump) ([]byte, error) {
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": r.ResourceVersion},
		"status":   map[string]any{StatusField(r): map[string]any{"nextStepIndex": j.To}},
	})
}

// ErrJumpRefused is wrapped by the errors of jumps that the executor did not follow.
var ErrJumpRefused = errors.New("not followed")

// JumpResult describes the result of a jump. done reports that an executor has followed it. The error wraps [ErrJumpRefused].
func JumpResult(r *api.Rollout, j Jump) (text string, done bool, err error) {
	name, m := r.Namespace+"/"+r.Name, r.Status.Sluice
	if m == nil || m.Epoch != j.Epoch {
		return "", true, fmt.Errorf("%w: another release of Rollout %s has begun: %s", ErrJumpRefused, name, r.Status.Message)
	}
	for _, t := range m.Transitions {
		if t.Seq > j.Seq && t.Step == j.To && t.Reason == "Jumped" {
			return fmt.Sprintf("Rollout %s has left step %d and goes on with step %d of %d", name, j.From, j.To, len(Steps(r))), true, nil
		}
	}
	if first := m.Transitions; len(first) > 0 && first[0].Seq > j.Seq+1 {
		return fmt.Sprintf("Rollout %s has moved on so far since that the jump to step %d is no longer told of; it is at step %d, in state %s, now", name, j.To, m.Step, m.State), true, nil
	}
	if current := r.Status.Common(); current == nil || m.Step != j.From || current.NextStepIndex != j.To {
		return "", true, fmt.Errorf("%w: the jump to step %d was taken back; Rollout %s is at step %d, in state %s, now: %s. Why, tells: kubectl describe rollout %s -n %s",
			ErrJumpRefused, j.To, name, m.Step, m.State, r.Status.Message, r.Name, r.Namespace)
	}
	return "", false, nil
}
