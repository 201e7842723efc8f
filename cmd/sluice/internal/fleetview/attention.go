package fleetview

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/cmd/internal/color"
	"sluice.dev/sluice/pkg/api"
)

// maxSkew is how far the clocks of the hub and of a member may be apart.
const maxSkew = 2 * time.Minute

// neverHeard stands for the phase of a FleetMember that has none yet.
const neverHeard = "NeverHeard"

// Attention is something that needs a person, with the command to type.
type Attention struct {
	Namespace    string            `json:"namespace,omitempty"`
	FleetRollout string            `json:"fleetRollout,omitempty"`
	Cluster      string            `json:"cluster,omitempty"`
	Reason       string            `json:"reason"`
	Message      string            `json:"message,omitempty"`
	Since        *metav1.MicroTime `json:"since,omitempty"`
	Command      string            `json:"command"`
}

// ReadAttention lists what needs a person in FleetRollouts and in FleetMembers, the oldest first.
func ReadAttention(rollouts []api.FleetRollout, members []api.FleetMember, s Style) []Attention {
	list := []Attention{}
	for i := range rollouts {
		r := &rollouts[i]
		for _, a := range r.Status.Attention {
			item := Attention{Namespace: r.Namespace, FleetRollout: r.Name, Cluster: a.Cluster, Reason: a.Reason, Message: a.Message, Since: a.Since}
			if a.Cluster == "" {
				item.Command = s.FleetCommand("get", r)
				if next := s.NextCommands(r); len(next) > 0 {
					item.Command = next[0].Command
				}
			} else {
				item.Command = s.ClusterCommand(r, a)
			}
			list = append(list, item)
		}
	}
	for i := range members {
		if item := s.memberAttention(&members[i]); item != nil {
			list = append(list, *item)
		}
	}
	slices.SortStableFunc(list, func(a, b Attention) int { return sinceOf(a).Compare(sinceOf(b)) })
	return list
}

// sinceOf returns when an entry began. Entries of unknown age come first.
func sinceOf(a Attention) time.Time {
	if a.Since == nil {
		return time.Time{}
	}
	return a.Since.Time
}

// memberAttention returns why a cluster needs a person, nil if it does not.
func (s Style) memberAttention(m *api.FleetMember) *Attention {
	a := &Attention{Cluster: m.Name, Message: m.Status.Message}
	if m.Status.LastSeen != nil {
		a.Since = &metav1.MicroTime{Time: m.Status.LastSeen.Time}
	}
	there := func(command string) string { return command + " --context " + m.Name }
	skew := m.Status.ClockSkew
	switch {
	case m.Status.Phase == api.FleetMemberUnreachable:
		a.Reason, a.Command = "Unreachable", there("kubectl get pods -A -l app.kubernetes.io/name=sluice-executor")
	case m.Status.Phase == api.FleetMemberNameTaken:
		a.Reason, a.Command = "NameTaken", s.withContext(s.program()+" fleet join NAME --hub-nats-url URL")
	case m.Status.Phase == "":
		a.Reason, a.Command = neverHeard, there("kubectl get pods -A -l app.kubernetes.io/name=sluice-executor")
		a.Message = "The hub has never heard this cluster; apply there what sluice fleet join has printed for it"
		a.Since = &metav1.MicroTime{Time: m.CreationTimestamp.Time}
	case m.Status.Enforcement == api.FleetEnforcementNone:
		a.Reason, a.Command = "NoEnforcement", s.program()+" install --print | "+there("kubectl apply --server-side -f -")
	case m.Status.Message != "":
		a.Reason, a.Command = "OrderRefused", there("kubectl get pods -A -l app.kubernetes.io/name=sluice-executor")
	case skew != nil && skew.Duration.Abs() > maxSkew:
		a.Reason, a.Command = "ClockSkew", there(s.program()+" check")
		a.Message = fmt.Sprintf("The clock of the cluster differs from the hub's by %s, and permits count for at most %s longer than their time", skew.Duration, maxSkew)
	default:
		return nil
	}
	return a
}

// AttentionLines draws a list of entries, each with its command below.
func AttentionLines(list []Attention, s Style, now time.Time) []string {
	ink := color.Ink{On: s.Color}
	var lines []string
	for _, a := range list {
		where := ""
		if a.FleetRollout != "" {
			where = a.Namespace + "/" + a.FleetRollout
		}
		lines = append(lines, attentionText(now, where, api.FleetAttention{Cluster: a.Cluster, Reason: a.Reason, Since: a.Since, Message: a.Message}), indent+ink.Bold(a.Command))
	}
	return lines
}

func attentionText(now time.Time, where string, a api.FleetAttention) string {
	text := where
	if a.Cluster != "" {
		if text != "" {
			text += "  "
		}
		text += a.Cluster
	}
	text += "  " + a.Reason
	if a.Since != nil {
		text += " for " + age(now, a.Since.Time)
	}
	if a.Message != "" {
		text += ": " + a.Message
	}
	return text
}
