package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
)

// fleetCommander is the field manager of commands to FleetRollouts.
const fleetCommander = "sluice-fleet-command"

// maxFleetComment is the maximum length of a comment in the schema.
const maxFleetComment = 1024

const fleetCommandCodes = `Exit codes:
  0  the hub has followed the command, or there was nothing to do
  1  the command could not be given; the message says why
  3  the hub refused the command; the message says why
  4  no executor of the hub has taken the command in time: it stays there, and counts when one does`

// fleetOrder is a command that a user gives to a FleetRollout.
type fleetOrder struct {
	action api.FleetCommandAction
	// complete adds the fields of this action, from the FleetRollout that the user sees. done is a sentence if there is nothing to do.
	complete func(r *api.FleetRollout, command *api.FleetCommand) (done string, err error)
	// foretells describes the effect.
	foretells string
	reason    string
	timeout   time.Duration
}

// giveFleetCommand writes a command into the status of a FleetRollout, and waits for the hub's answer.
func (c *cli) giveFleetCommand(ctx context.Context, arg string, o fleetOrder) error {
	if len(o.reason) > maxFleetComment {
		return fmt.Errorf("the reason has %d characters; give at most %d", len(o.reason), maxFleetComment)
	}
	h, r, err := c.namedFleetRollout(ctx, arg)
	if err != nil {
		return err
	}
	user, err := whoAmI(ctx, h.config)
	if err != nil {
		return err
	}
	written, given, done, err := c.writeFleetCommand(ctx, h, r, user, o)
	switch {
	case err != nil:
		return err
	case done != "":
		fmt.Fprintln(c.out, done)
		return nil
	}
	fmt.Fprintf(c.errors, "%s (%s by %s)\n", o.foretells, given.Action, given.Actor)
	return c.awaitFleetAnswer(ctx, h, written, given, o.timeout)
}

// writeFleetCommand writes the command in the name of a user, bound to the version that it was made for. If another client has changed the FleetRollout, it
// looks again whether the command still means the same.
func (c *cli) writeFleetCommand(ctx context.Context, h hub, r *api.FleetRollout, user string, o fleetOrder) (written *api.FleetRollout, given api.FleetCommand, done string, err error) {
	name := r.Name
	for again := false; ; again = true {
		now := api.FleetCommand{Action: o.action, Epoch: r.Status.Epoch, Actor: user, Comment: o.reason}
		if err := c.checkCommandable(r); err != nil {
			return nil, now, "", err
		}
		if done, err := o.complete(r, &now); done != "" || err != nil {
			return nil, now, done, err
		}
		if again && !reflect.DeepEqual(now, given) {
			return nil, now, "", fmt.Errorf("not given, the release of FleetRollout %s/%s has moved meanwhile: %s", r.Namespace, r.Name, r.Status.Message)
		}
		given = now
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": r.ResourceVersion}, "status": map[string]any{"command": given}})
		if err != nil {
			return nil, given, "", fmt.Errorf("write patch: %w", err)
		}
		object, err := h.objects.Resource(api.FleetRolloutResource()).Namespace(r.Namespace).
			Patch(ctx, r.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fleetCommander}, "status")
		switch {
		case err == nil:
			written, err = typed[api.FleetRollout](object)
			return written, given, "", err
		case !apierrors.IsConflict(err):
			return nil, given, "", c.commandProblem(ctx, h, r, given, err)
		}
		if r, err = h.readFleetRollout(ctx, name); err != nil {
			return nil, given, "", c.fleetProblem(ctx, h, name, err)
		}
	}
}

// checkCommandable returns an error if a FleetRollout can take no command at all.
func (c *cli) checkCommandable(r *api.FleetRollout) error {
	style := c.typedStyle()
	switch given := r.Status.Command; {
	case r.Status.Phase == "":
		return fmt.Errorf("no executor of a hub has looked at FleetRollout %s/%s yet; find out why with: %s check", r.Namespace, r.Name, c.command)
	case r.Status.Release == nil:
		return fmt.Errorf("FleetRollout %s/%s has no release; begin one with: %s", r.Namespace, r.Name, style.FleetCommand("release", r, "--version", "VERSION"))
	case given != nil:
		return fmt.Errorf("FleetRollout %s/%s has a command already, which the hub has not taken: %s by %s. Wait until it has, and find out why it takes long with: %s check",
			r.Namespace, r.Name, given.Action, given.Actor, c.command)
	}
	return nil
}

// awaitFleetAnswer waits until the hub has followed or refused a command, and says which.
func (c *cli) awaitFleetAnswer(ctx context.Context, h hub, written *api.FleetRollout, given api.FleetCommand, timeout time.Duration) error {
	err := c.showFleetProgress(ctx, h, written, timeout, "", func(now *api.FleetRollout) (string, bool, error) {
		return fleetAnswer(written, now, given)
	})
	var slow late
	if errors.As(err, &slow) {
		return outcome{codeUndecided, fmt.Sprintf("undecided: the command %s for FleetRollout %s/%s is written, and no executor of the hub has taken it within %s. It counts when one does. Find out why with: %s check",
			given.Action, written.Namespace, written.Name, timeout, c.command)}
	}
	return err
}

// fleetAnswer returns the hub's answer to a command: the transition that it records when it takes the command away.
func fleetAnswer(written, now *api.FleetRollout, given api.FleetCommand) (text string, done bool, err error) {
	name := now.Namespace + "/" + now.Name
	if now.UID != written.UID {
		return "", true, outcome{codeRefused, fmt.Sprintf("not followed: a user has deleted and created FleetRollout %s meanwhile", name)}
	}
	for _, t := range now.Status.Transitions {
		switch {
		case t.Seq <= written.Status.TransitionSeq || t.Actor != given.Actor:
		case t.Reason == "CommandRefused" && strings.HasPrefix(t.Message, "the command "+string(given.Action)+" "):
			return "", true, outcome{codeRefused, fmt.Sprintf("not followed: FleetRollout %s: %s", name, t.Message)}
		case t.Reason == string(given.Action), given.Action == api.FleetCommandRollback && t.Reason == "RolledBack":
			return fmt.Sprintf("FleetRollout %s has followed %s; it is %s: %s", name, t.Message, now.Status.Phase, now.Status.Message), true, nil
		}
	}
	switch other := now.Status.Command; {
	case other == nil:
		return "", true, outcome{codeUndecided, fmt.Sprintf("undecided: the hub has taken the command %s, and its answer is not on record any more. FleetRollout %s is %s: %s",
			given.Action, name, now.Status.Phase, now.Status.Message)}
	case reflect.DeepEqual(*other, given):
		return "", false, nil
	default:
		return "", true, outcome{codeRefused, fmt.Sprintf("not followed: %s has told FleetRollout %s something else meanwhile (%s)", other.Actor, name, other.Action)}
	}
}

// commandProblem explains why the API server refuses a command. The usual reason is that the user lacks the verb of the command.
func (c *cli) commandProblem(ctx context.Context, h hub, r *api.FleetRollout, given api.FleetCommand, err error) error {
	verb := commandVerbOf(given.Action)
	lacks := ""
	switch {
	case strings.Contains(err.Error(), "you need the verb "+verb+" on this FleetRollout"):
		lacks = "the verb " + verb + " on it"
	case apierrors.IsForbidden(err):
		lacks = "the verb " + verb + " on it, and patch on fleetrollouts/status"
	default:
		return c.fleetProblem(ctx, h, r.Name, err)
	}
	roles := rolesWith(verb)
	return said(fmt.Sprintf("error: to give the command %s to FleetRollout %s/%s, the user %s needs %s.\n%s: kubectl create rolebinding %s -n %s --clusterrole=%s --user=%s",
		given.Action, r.Namespace, r.Name, given.Actor, lacks, rolesText(roles), strings.TrimPrefix(roles[0], "sluice-"), r.Namespace, roles[0], given.Actor))
}

func rolesText(roles []string) string {
	if len(roles) == 1 {
		return "The ClusterRole " + roles[0] + " has it"
	}
	last := len(roles) - 1
	return "The ClusterRoles " + strings.Join(roles[:last], ", ") + " and " + roles[last] + " have it"
}

// commandVerbOf returns the RBAC verb that the policy sluice-validate-fleet asks for.
func commandVerbOf(action api.FleetCommandAction) string {
	switch action {
	case api.FleetCommandPause, api.FleetCommandResume:
		return "pause"
	case api.FleetCommandApprove, api.FleetCommandReject:
		return "approve"
	case api.FleetCommandRetry, api.FleetCommandSkip:
		return "skip"
	case api.FleetCommandPromote:
		return "expedite"
	}
	return strings.ToLower(string(action))
}

// rolesWith returns the shipped ClusterRoles that have a verb on FleetRollouts, the one with the fewest rights first.
func rolesWith(verb string) []string {
	const platform, app, ci = "sluice-fleet-platform", "sluice-fleet-app", "sluice-fleet-ci"
	switch verb {
	case "approve":
		return []string{ci, app, platform}
	case "expedite", "unblock":
		return []string{platform}
	}
	return []string{app, platform}
}
